package gemini_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
)

// stalling writes what it has and then waits until the client closes the connection.
type stalling struct {
	kind, body      string // the content type and what comes before the stall. Both empty: not even headers
	reached, closed chan struct{}
}

func stall(kind, body string) *stalling {
	return &stalling{kind, body, make(chan struct{}), make(chan struct{})}
}

func (s *stalling) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if s.kind != "" {
		w.Header().Set("Content-Type", s.kind)
		_, _ = io.WriteString(w, s.body)
		_ = http.NewResponseController(w).Flush()
	}
	close(s.reached)
	<-r.Context().Done()
	close(s.closed)
}

// wasClosed waits until the connection is closed, if the call got as far as to open one.
func (s *stalling) wasClosed() {
	select {
	case <-s.reached:
		<-s.closed
	default:
	}
}

func TestCancelingClosesTheConnectionAtOnce(t *testing.T) {
	limit := llm.Limit(llm.Stalled, "no token within 5s")
	first := events(piece("Hel"))
	for _, way := range []struct {
		name  string
		cause error
		class llm.Class
	}{
		{"the caller leaves", nil, llm.Canceled},
		{"the caller leaves with a reason", errors.New("the user closed the tab"), llm.Canceled},
		{"a stage's limit fires", limit, llm.Stalled},
	} {
		for _, place := range []struct {
			name, kind, body string
			streamed         bool
			phase            llm.Phase
		}{
			{"before headers", "", "", false, llm.PhaseSend},
			{"in the body", jsonType, `{"candidates":[`, false, llm.PhaseBody},
			{"before headers of a stream", "", "", true, llm.PhaseSend},
			{"before the first event", sseType, ": ping\n\n", true, llm.PhaseStream},
			{"in the stream", sseType, first, true, llm.PhaseStream},
			{"in a body of unknown kind", "text/plain", " ", true, llm.PhaseBody},
		} {
			t.Run(way.name+"/"+place.name, func(t *testing.T) {
				s := stall(place.kind, place.body)
				headers := make(chan struct{}) // came in
				m := serve(t, s.serve, func(c *gemini.Config) {
					next := c.HTTPClient.Transport
					c.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
						defer close(headers)
						return next.RoundTrip(r)
					})}
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				req, streaming := ask("hi"), make(chan struct{}, 1)
				if place.streamed {
					req.Sink = func(llm.Delta) error { streaming <- struct{}{}; return nil }
				}
				go func() {
					<-s.reached
					if place.kind != "" {
						<-headers
					}
					if place.body == first {
						<-streaming
					}
					cancel(way.cause)
				}()
				resp, err := m.Call(ctx, req)
				e := failure(t, resp, err)
				if e.Class != way.class || way.cause != nil && way.class == llm.Canceled && !errors.Is(err, way.cause) {
					t.Errorf("got %v of class %v, want %v", err, e.Class, way.class)
				}
				if errors.Is(err, context.Canceled) != (way.class == llm.Canceled) {
					t.Errorf("is context.Canceled: %v", errors.Is(err, context.Canceled))
				}
				want := llm.CommitUnknown
				if place.body == first {
					want = llm.Committed
				}
				if e.Evidence.Phase != place.phase || e.Commit != want {
					t.Errorf("phase %v, commit %v; want %v, %v", e.Evidence.Phase, e.Commit, place.phase, want)
				}
				if (e.Partial.Text() == "Hel") != (place.body == first) {
					t.Errorf("Partial %+v", e.Partial)
				}
				<-s.closed
			})
		}
	}
}

func TestTheCallersDeadlineIsTheCallers(t *testing.T) {
	s := stall("", "")
	m := serve(t, s.serve)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	resp, err := m.Call(ctx, ask("hi"))
	if e := failure(t, resp, err); e.Class != llm.Exhausted {
		t.Errorf("got %v", e)
	}
	s.wasClosed()
}

func TestATimeoutOfTheClientIsNotTheCallers(t *testing.T) {
	s := stall("", "")
	m := serve(t, s.serve, func(c *gemini.Config) { c.HTTPClient.Timeout = 20 * time.Millisecond })
	resp, err := m.Call(t.Context(), ask("hi"))
	if e := failure(t, resp, err); e.Class != llm.Timeout {
		t.Errorf("got %v of class %v", e, e.Class)
	}
	s.wasClosed()
}

func TestACallThatIsCanceledAlreadySendsNothing(t *testing.T) {
	var s recorder
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	resp, err := serve(t, s.serve).Call(ctx, ask("hi"))
	if e := failure(t, resp, err); e.Class != llm.Canceled || e.Commit != llm.CommitNone || s.calls != 0 {
		t.Errorf("got %v, commit %v, %d requests", e, e.Commit, s.calls)
	}
}

func TestAFailureInAStreamClosesTheConnection(t *testing.T) {
	for name, body := range map[string]string{
		"an error":      events(`{"error":{"code":429,"message":"no"}}`),
		"a damaged one": events(`{"candidates":`),
	} {
		t.Run(name, func(t *testing.T) {
			s := stall(sseType, body)
			_, resp, err := collect(t, serve(t, s.serve), ask("hi"))
			if e := failure(t, resp, err); e.Class == llm.Canceled {
				t.Errorf("got %v", e)
			}
			<-s.closed
		})
	}
}

func TestLeavingALoopOverTheStreamClosesTheConnection(t *testing.T) {
	s := stall(sseType, events(piece("Hel")))
	for d, err := range llm.Stream(t.Context(), serve(t, s.serve), ask("hi")) {
		if err != nil || d.Text != "Hel" {
			t.Errorf("got %+v, %v", d, err)
		}
		break
	}
	<-s.closed
}

func TestASinkThatPanicsClosesTheConnection(t *testing.T) {
	s := stall(sseType, events(piece("Hel")))
	m := serve(t, s.serve)
	req := ask("hi")
	req.Sink = func(llm.Delta) error { panic("sink") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = m.Call(t.Context(), req)
	}()
	<-s.closed
}
