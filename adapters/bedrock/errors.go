package bedrock

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
)

// plain takes the SDK's envelopes and the URL off an error: they say nothing new.
func plain(err error) error {
	err = adapter.Plain(err)
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		return op.Err
	}
	return err
}

// AsError is err, which a call of the SDK's client returned under ctx, as an *llm.Error with its class and the evidence that
// the SDK kept, which is all but the body. nil stays nil.
func (m *Model) AsError(ctx context.Context, err error) error {
	return m.account.AsError(ctx, err, func(e *llm.Error) { readSDK(e, err) })
}

// readSDK takes what the SDK's own errors tell.
func readSDK(e *llm.Error, err error) {
	e.Err = plain(err)
	ev := &e.Evidence
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.Response != nil {
		ev.Status, ev.Header = r.Response.StatusCode, r.Response.Header
		e.RequestID = ev.Header.Get("X-Amzn-Requestid")
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		ev.Code, ev.Message = api.ErrorCode(), api.ErrorMessage()
		e.Err = fmt.Errorf("the SDK reports %s", ev.Code) // its own text repeats the message
	}
}
