package anthropic

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// AsError is err, which a call of the SDK's client returned under ctx, as an *llm.Error with its class and the evidence that
// the SDK kept. nil stays nil.
func (m *Model) AsError(ctx context.Context, err error) error {
	return m.account.AsError(ctx, err, func(e *llm.Error) { readSDK(e, err) })
}

// readSDK takes what the SDK's own errors tell.
func readSDK(e *llm.Error, err error) {
	if api, ok := errors.AsType[*sdk.Error](err); ok {
		body := api.RawJSON()
		e.RequestID = api.RequestID
		e.Evidence = llm.Evidence{Status: api.StatusCode, Body: body[:min(len(body), wire.MaxBody)]}
		if api.Response != nil {
			e.Evidence.Header = api.Response.Header
		}
		e.Err = fmt.Errorf("the SDK reports HTTP status %d", api.StatusCode) // its own text repeats the URL and the body
	}
}
