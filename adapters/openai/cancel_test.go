package openai_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
)

// stalling writes what it has and then waits until the client closes the connection.
type stalling struct {
	header, body    string // the content type and what comes before the stall. Both empty: not even headers
	reached, closed chan struct{}
}

func stall(header, body string) *stalling {
	return &stalling{header, body, make(chan struct{}), make(chan struct{})}
}

func (s *stalling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if s.header != "" {
		w.Header().Set("Content-Type", s.header)
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
	ways := []struct {
		name  string
		cause error
		class llm.Class
	}{
		{"the caller leaves", nil, llm.Canceled},
		{"the caller leaves with a reason", errors.New("the user closed the tab"), llm.Canceled},
		{"a stage's limit fires", limit, llm.Stalled},
	}
	places := []struct {
		name, header, body string
		streamed           bool
		phase              llm.Phase
	}{
		{"before headers", "", "", false, llm.PhaseSend},
		{"in the body", json, `{"choices":[`, false, llm.PhaseBody},
		{"before headers of a stream", "", "", true, llm.PhaseSend},
		{"before the first event", sse, ": hi\n\n", true, llm.PhaseStream},
		{"in the stream", sse, first, true, llm.PhaseStream},
		{"in a body of unknown kind", "text/plain", " ", true, llm.PhaseBody},
	}
	for _, way := range ways {
		for _, place := range places {
			t.Run(way.name+"/"+place.name, func(t *testing.T) {
				s := stall(place.header, place.body)
				headers := make(chan struct{}) // came in
				m := serve(t, s, openai.Config{HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					defer close(headers)
					return http.DefaultTransport.RoundTrip(r)
				})}})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				req, streaming := ask("hi"), make(chan struct{}, 1)
				if place.streamed {
					req.Sink = func(llm.Delta) error { streaming <- struct{}{}; return nil }
				}
				go func() {
					<-s.reached
					if place.header != "" {
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

func TestCancelingWhileItConnectsSendsNothing(t *testing.T) {
	dialing, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	m := openai.New(openai.Config{Model: "m", HTTPClient: &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			close(dialing)
			<-over // net/http lets a dial go on for the next request
			return nil, net.ErrClosed
		}}}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-dialing
		cancel()
	}()
	resp, err := m.Call(ctx, ask("hi"))
	if e := failure(t, resp, err); e.Class != llm.Canceled || e.Evidence.Phase != llm.PhaseConnect || e.Commit != llm.CommitNone {
		t.Errorf("got %v, phase %v, commit %v", e, e.Evidence.Phase, e.Commit)
	}
}

func TestTheCallersDeadlineIsTheCallers(t *testing.T) {
	s := stall("", "")
	m := serve(t, s, openai.Config{})
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
	m := serve(t, s, openai.Config{HTTPClient: &http.Client{Timeout: 20 * time.Millisecond}})
	resp, err := m.Call(t.Context(), ask("hi"))
	if e := failure(t, resp, err); e.Class != llm.Timeout {
		t.Errorf("got %v of class %v", e, e.Class)
	}
	s.wasClosed()
}

func TestACallThatIsCanceledAlreadySendsNothing(t *testing.T) {
	s := ok()
	m := serve(t, s, openai.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	resp, err := m.Call(ctx, ask("hi"))
	if e := failure(t, resp, err); e.Class != llm.Canceled || e.Commit != llm.CommitNone || s.calls != 0 {
		t.Errorf("got %v, commit %v, %d requests", e, e.Commit, s.calls)
	}
}

func TestLeavingALoopOverTheStreamClosesTheConnection(t *testing.T) {
	s := stall(sse, first)
	m := serve(t, s, openai.Config{})
	for d, err := range llm.Stream(t.Context(), m, ask("hi")) {
		if err != nil || d.Text != "Hel" {
			t.Errorf("got %+v, %v", d, err)
		}
		break
	}
	<-s.closed
}

func TestASinkThatPanicsClosesTheConnection(t *testing.T) {
	s := stall(sse, first)
	m := serve(t, s, openai.Config{})
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
