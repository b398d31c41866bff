package openai

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// brokenClass is the class of a finish reason that tells none itself. Unknown: its name is evidence enough.
func brokenClass(finish string) llm.Class {
	if finish == "insufficient_system_resource" {
		return llm.Unknown
	}
	return llm.Interrupted
}

// AsError is err, which a call of the SDK's client returned under ctx, as an *llm.Error with its class. Calls of
// [Model.Client] bring their evidence along; of any other client's errors it keeps what they tell, which is no headers. nil
// stays nil.
func (m *Model) AsError(ctx context.Context, err error) error {
	return m.account.AsError(ctx, err, func(e *llm.Error) { readSDK(e, err) })
}

// readSDK takes what the SDK's own errors tell. Their texts are the whole body.
func readSDK(e *llm.Error, err error) {
	ev := &e.Evidence
	if r, ok := errors.AsType[*sdk.RequestError](err); ok { // first: it may hold an empty APIError
		ev.Status, ev.Body = r.HTTPStatusCode, wire.Start(r.Body)
		e.Err = adapter.Renamed("go-openai: "+r.HTTPStatus, err)
	} else if a, ok := errors.AsType[*sdk.APIError](err); ok {
		ev.Status, ev.Type, ev.Message = a.HTTPStatusCode, a.Type, a.Message
		if a.Code != nil {
			ev.Code = fmt.Sprint(a.Code)
		}
		if a.Param != nil {
			ev.Param = *a.Param
		}
		e.Err = adapter.Renamed(strings.TrimSuffix("go-openai: "+a.HTTPStatus, ": "), err)
		if a.InnerError != nil && a.InnerError.Code != "" {
			ev.Code = a.InnerError.Code
		}
	}
}
