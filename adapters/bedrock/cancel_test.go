package bedrock_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
)

// TestACanceledCallHangsUp covers what the contract's suite leaves out: answers in one piece, failures, and the halves of
// frames.
func TestACanceledCallHangsUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		kind   string
		body   string
	}{
		{"in an answer", 200, jsonType, `{"output"`},
		{"before anything is known of the answer's form", 200, "text/plain", ""},
		{"in a failure", 503, jsonType, `{"message"`},
		{"in a stream before its first frame", 200, frameType, ""},
		{"in a frame", 200, frameType, begun + piece("Hel")[:30]},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			closed := make(chan struct{})
			m := serve(t, func(w http.ResponseWriter, r *http.Request) {
				defer close(closed)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
				_ = http.NewResponseController(w).Flush()
				cancel(errors.New("lunch"))
				<-r.Context().Done()
			})
			resp, err := m.Call(ctx, streamed(&llm.Accumulator{}))
			if resp != nil || !errors.Is(err, context.Canceled) || llm.ClassOf(err) != llm.Canceled {
				t.Errorf("%+v, %v of class %v", resp, err, llm.ClassOf(err))
			}
			<-closed
		})
	}
}

func TestACallCanceledWhileCredentialsAreFetchedIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := bedrock.New(bedrock.Config{Region: "us-east-1", Model: "m", Credentials: aws.CredentialsProviderFunc(
		func(ctx context.Context) (aws.Credentials, error) {
			cancel()
			return aws.Credentials{}, ctx.Err()
		})})
	_, err := m.Call(ctx, ask("Hello?"))
	if e := llm.AsError(err); e.Class != llm.Canceled || e.Commit != llm.CommitNone {
		t.Errorf("%v of class %v, commit %v", err, e.Class, e.Commit)
	}
}

func TestAStagesLimitDecidesTheClass(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", frameType)
		_, _ = io.WriteString(w, begun+piece("Hel"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	req := streamed(&llm.Accumulator{})
	req.Sink = func(llm.Delta) error {
		cancel(llm.Limit(llm.Stalled, "silent for too long"))
		return nil
	}
	_, err := m.Call(ctx, req)
	if e := llm.AsError(err); e.Class != llm.Stalled || e.Partial.Text() != "Hel" || !e.Usage.Estimated || e.Commit != llm.Committed {
		t.Errorf("%+v", e)
	}
}

// parts is a body that comes in parts and tells whether its end was seen.
type parts struct {
	left  []string
	ended bool
}

func (p *parts) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		p.ended = true
		return 0, io.EOF
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; p.left[0] == "" {
		p.left = p.left[1:]
	}
	return n, nil
}

func (p *parts) Close() error { return nil }

// TestAStreamIsReadToItsEnd shows that the connection can be used again, which the end of its body must have come for.
func TestAStreamIsReadToItsEnd(t *testing.T) {
	body := &parts{left: []string{begun + piece("Hello") + closed + ended[:9], ended[9:], told, event("new", "{}")}}
	m := bedrock.New(bedrock.Config{Region: "us-east-1", Model: "m", HTTPClient: &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {frameType}}, Body: body, Request: r}, nil
		}),
	}})
	resp, err := m.Call(t.Context(), streamed(&llm.Accumulator{}))
	if err != nil || !body.ended || resp.Usage.Output != 4 {
		t.Errorf("the end was seen: %v; %+v, %v", body.ended, resp, err)
	}
}

// hanging is a body that stays open after what it has, until its request is canceled.
type hanging struct {
	io.Reader
	ctx context.Context //nolint:containedctx // the request's
}

func (h hanging) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); err == nil {
		return n, nil
	}
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

func (h hanging) Close() error { return nil }

func TestABodyThatDoesNotEndHoldsNothingBack(t *testing.T) {
	whole := begun + piece("Hello") + closed + ended
	for _, c := range []struct {
		name   string
		status int
		kind   string
		body   string
		class  llm.Class
		most   time.Duration
	}{
		{"after a failure's headers", 503, jsonType, `{"message":"Gone`, llm.Unavailable, 2 * time.Second},
		{"after messageStop", 200, frameType, whole, llm.Unknown, 2 * time.Second},
		{"after the metadata", 200, frameType, whole + told, llm.Unknown, 100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := bedrock.New(bedrock.Config{Region: "us-east-1", Model: "m", HTTPClient: &http.Client{
					Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
						return &http.Response{
							StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, Request: r,
							Body: hanging{strings.NewReader(c.body), r.Context()},
						}, nil
					}),
				}})
				from := time.Now()
				resp, err := m.Call(t.Context(), streamed(&llm.Accumulator{}))
				if (resp == nil) != (c.class != llm.Unknown) || c.class != llm.Unknown && llm.ClassOf(err) != c.class {
					t.Errorf("%+v, %v", resp, err)
				}
				if took := time.Since(from); took > c.most {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
