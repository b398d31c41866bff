package anthropic_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
)

// TestACanceledCallHangsUp covers what the contract's suite leaves out: answers in one piece, and failures.
func TestACanceledCallHangsUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		kind   string
		body   string
	}{
		{"in an answer", 200, jsonType, `{"id":"msg_1"`},
		{"before anything is known of the answer's form", 200, "text/plain", " "},
		{"in a failure", 529, jsonType, `{"type":"error"`},
		{"in a stream before its first event", 200, sseType, "event: message_start\n"},
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

func TestAStagesLimitDecidesTheClass(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", sseType)
		_, _ = io.WriteString(w, events(begun, opened, piece("Hel")))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	req := streamed(&llm.Accumulator{})
	req.Sink = func(llm.Delta) error {
		cancel(llm.Limit(llm.Stalled, "silent for too long"))
		return nil
	}
	_, err := m.Call(ctx, req)
	if e := llm.AsError(err); e.Class != llm.Stalled || e.Partial.Text() != "Hel" || e.Usage.Input != 10 || e.Commit != llm.Committed {
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
	body := &parts{left: []string{events(begun, opened, piece("Hello"), closed, ended, over), ": and nothing else\n\n"}}
	m := anthropic.New(anthropic.Config{Model: "claude-test", HTTPClient: &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {sseType}}, Body: body, Request: r}, nil
		}),
	}})
	if _, err := m.Call(t.Context(), streamed(&llm.Accumulator{})); err != nil || !body.ended {
		t.Errorf("the end was seen: %v; %v", body.ended, err)
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
	for _, c := range []struct {
		name   string
		status int
		kind   string
		body   string
		class  llm.Class
		most   time.Duration
	}{
		{"after a failure's headers", 529, jsonType, `{"type":"error","error":{"type":"overloaded_error"`, llm.Overloaded, 2 * time.Second},
		{"after message_stop", 200, sseType, events(begun, opened, piece("Hello"), closed, ended, over), llm.Unknown, 100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := anthropic.New(anthropic.Config{Model: "claude-test", HTTPClient: &http.Client{
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
