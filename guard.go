package llm

import (
	"context"
	"errors"
)

// A Guard puts a chain around any other model call: embeddings, moderation, transcription, rerank. See [Do].
type Guard struct{ pipeline *Pipeline }

// NewGuard builds c once around calls known as name. Where a stage keeps state by deployment, a chat deployment of the
// same name shares it. An empty name panics.
func NewGuard(name string, c Chain) *Guard {
	return &Guard{c.Then(&Deployment{Name: name, Caller: CallerFunc(runGuarded)})}
}

func runGuarded(ctx context.Context, req *Request) (*Response, error) {
	if err := req.scope.extras().do(ctx); err != nil {
		return nil, err
	}
	return &Response{}, nil
}

// Describe is the onion around the guarded calls.
func (g *Guard) Describe() Node { return g.pipeline.Describe() }

// Do runs fn through g's chain, which may run it several times, and returns what its last run returned. The error is an
// *Error with the account of attempts; the one that fn returned is in its chain, unless a limit or the caller ended the
// run.
func Do[T any](ctx context.Context, g *Guard, fn func(context.Context) (T, error)) (T, error) {
	var result T
	if g == nil || g.pipeline == nil || fn == nil {
		return result, &Error{Class: Invalid, Owner: OwnerRequest, Err: errors.New("llm: Do needs a Guard and a function")}
	}
	r, c, _ := begin(&Request{})
	r.scope.derived = &derived{do: func(ctx context.Context) (err error) {
		result, err = fn(ctx)
		return err
	}}
	resp, err := g.pipeline.Call(ctx, r)
	if _, err = c.finish(resp, err); err != nil {
		var zero T
		return zero, err
	}
	return result, nil
}
