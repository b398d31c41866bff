package bedrock

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/modelchain/llm/internal/wire"
)

func options(cfg *Config) bedrockruntime.Options {
	o := bedrockruntime.Options{Region: cfg.Region, Retryer: aws.NopRetryer{}, HTTPClient: doer{wire.Client(cfg.HTTPClient)}}
	if cfg.BaseURL != "" {
		o.BaseEndpoint = aws.String(cfg.BaseURL)
	}
	return o
}

// A doer makes the SDK's requests. The SDK closes a request's body as soon as the answer's head is there, which may be
// before net/http has looked for the body's end. A closed one gives an error there, and net/http closes the connection with
// the answer in it. So the body that is sent is not the one that is closed.
type doer struct{ client *http.Client }

// Do makes a request.
func (d doer) Do(r *http.Request) (*http.Response, error) {
	if r.ContentLength <= 0 || r.Body == nil { // nothing, or a stream of events, which has no end to look for
		return d.client.Do(r)
	}
	data := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, data); err != nil {
		return nil, err
	}
	r = r.WithContext(r.Context())
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	r.Body, _ = r.GetBody()
	return d.client.Do(r)
}

// newClient is the SDK's client without the API key that it finds in the environment.
func newClient(o bedrockruntime.Options, more ...func(*middleware.Stack) error) *bedrockruntime.Client {
	return bedrockruntime.New(o, func(o *bedrockruntime.Options) {
		o.BearerAuthTokenProvider, o.APIOptions = nil, more
		sign(o)
	})
}

// sign has requests signed where there is something to sign with; the SDK would look for a bearer token first.
func sign(o *bedrockruntime.Options) {
	o.AuthSchemePreference = []string{"noAuth"}
	if o.Credentials != nil {
		o.AuthSchemePreference = []string{"sigv4"}
	}
}

// Client is the SDK's client for the same API: InvokeModel, counting tokens, guardrails. It uses m's address, credentials,
// headers and http.Client, reads the environment for nothing and never retries. Guard its calls with [llm.Do]; what fn
// returns there may pass through [Model.AsError], which makes the SDK's errors *llm.Error values with their class.
func (m *Model) Client() *bedrockruntime.Client {
	o := m.options
	o.Credentials = m.cfg.Credentials
	return newClient(o, func(stack *middleware.Stack) error {
		return onBuild(stack, func(ctx context.Context, h http.Header) error {
			key, bad := m.account.KeyFor(ctx)
			if bad != nil {
				return m.account.Classified(ctx, bad)
			}
			m.account.Sign(h, key) // the SDK would send keys over TLS alone
			return nil
		})
	})
}

// onBuild runs f on the headers before they are signed.
func onBuild(stack *middleware.Stack, f func(context.Context, http.Header) error) error {
	return stack.Build.Add(middleware.BuildMiddlewareFunc("llmHeader", func(
		ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler,
	) (out middleware.BuildOutput, md middleware.Metadata, err error) {
		r, ok := in.Request.(*smithyhttp.Request)
		if !ok {
			return out, md, fmt.Errorf("the SDK makes a %T of the request", in.Request)
		}
		if err := f(ctx, r.Header); err != nil {
			return out, md, err
		}
		return next.HandleBuild(ctx, in)
	}), middleware.After)
}

// apiOptions makes the SDK send c's payload and leave the answer to c.
func (c *call) apiOptions(payload []byte, key string, result any) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		if err := stack.Serialize.Add(middleware.SerializeMiddlewareFunc("llmBody", func(
			ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler,
		) (out middleware.SerializeOutput, md middleware.Metadata, err error) {
			r, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return out, md, fmt.Errorf("the SDK makes a %T of the request", in.Request)
			}
			if in.Request, err = r.SetStream(bytes.NewReader(payload)); err != nil {
				return out, md, err
			}
			r.Header.Set("Content-Type", "application/json")
			return next.HandleSerialize(ctx, in)
		}), middleware.After); err != nil {
			return err
		}
		if err := onBuild(stack, func(_ context.Context, h http.Header) error {
			c.Sign(h, key)
			return nil
		}); err != nil {
			return err
		}
		// Only streams have it, and it would start goroutines.
		_, _ = stack.Deserialize.Remove("OperationEventStreamDeserializer")
		_, err := stack.Deserialize.Swap("OperationDeserializer", &taker{c, result})
		return err
	}
}

// A taker stands in the place of the SDK's reader of answers and takes the answer as it came.
type taker struct {
	c      *call
	result any // what the SDK's method wants to return
}

// ID names it among the SDK's middleware.
func (t *taker) ID() string { return "OperationDeserializer" }

// HandleDeserialize hands the answer to the call.
func (t *taker) HandleDeserialize(
	ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, md, err := next.HandleDeserialize(ctx, in)
	if err != nil {
		return out, md, err
	}
	resp, ok := out.RawResponse.(*smithyhttp.Response)
	if !ok {
		return out, md, fmt.Errorf("the SDK makes a %T of the answer", out.RawResponse)
	}
	t.c.resp = resp.Response
	out.Result = t.result
	return out, md, nil
}
