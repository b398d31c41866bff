package gemini

import (
	"context"
	"errors"
	"fmt"

	sdk "google.golang.org/genai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// AsError is err, which a call of the SDK's client returned under ctx, as an *llm.Error with its class. Calls of
// [Model.Client] bring their evidence along; of any other client's errors it keeps what they tell, which is no headers. nil
// stays nil.
func (m *Model) AsError(ctx context.Context, err error) error {
	return m.account.AsError(ctx, err, func(e *llm.Error) { readSDK(e, err) })
}

// readSDK takes what the SDK's own errors tell.
func readSDK(e *llm.Error, err error) {
	if api, ok := errors.AsType[sdk.APIError](err); ok {
		e.Evidence = llm.Evidence{Status: api.Code, Message: api.Message}
		if body, err := wire.Marshal(map[string]sdk.APIError{"error": api}); err == nil && len(api.Details) > 0 {
			e.Evidence = llm.Evidence{Status: api.Code, Body: wire.Start(body)}
		} else if api.Status != "" {
			e.Evidence.Code = api.Status
		}
		e.Err = adapter.Renamed(fmt.Sprintf("genai: HTTP %d", api.Code), err) // its own text is the whole body
	}
}
