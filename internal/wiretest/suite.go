package wiretest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
)

// Settings are what the suite sets of a configuration; all may be zero.
type Settings struct {
	URL    string
	HTTP   *http.Client
	APIKey string
	Key    func(context.Context) (string, error)
	Header http.Header
}

// An API is one provider's wire as the suite needs it.
type API struct {
	// New makes a model with a name; Config is the configuration that it is made of.
	New    func(Settings) llm.Caller
	Config func(Settings) any
	// Whole is an answer in one piece, Cut the beginning of one.
	Whole, Cut string
	// Counted is an answer with counts of input and output as JSON.
	Counted func(input, output string) string
	// Kind is the media type of a stream. Silent is its beginning before there is content, perhaps a comment alone; Hel goes on to
	// the first text, "Hel"; Hello is a whole stream of that text and "lo".
	Kind, Silent, Hel, Hello string
	// Damaged are pieces of a stream, and Lost whole answers, that may hold content which cannot be read; Nothing are pieces that
	// hold none.
	Damaged, Lost, Nothing []string
	// Failure is the body of a failure with a message, InBand the event that reports one in a stream.
	Failure, InBand func(message string) string
	// Told is the body of a failure that needs no status to be known for one. nil: Failure.
	Told func(message string) string
}

func (a *API) serve(t testing.TB, h http.Handler, s Settings) llm.Caller {
	t.Helper()
	at, client := Serve(t, h)
	s.URL = at
	if s.HTTP == nil {
		s.HTTP = client
	}
	return a.New(s)
}

// Test holds an adapter to what every adapter does.
func Test(t *testing.T, a API) {
	for name, f := range map[string]func(*testing.T, *API){
		"canceling closes the connection at once":                 cancels,
		"whose time ran out is told":                              deadlines,
		"a call that is canceled already sends nothing":           canceledBefore,
		"tokens are counted from nothing upwards":                 counts,
		"a tool's message holds results alone":                    resultsAlone,
		"canceling while it connects sends nothing":               connects,
		"leaving a loop or a panic closes the connection":         leaves,
		"a sink that fails ends the call":                         sinks,
		"phase and commit say how far it got":                     phases,
		"a stream that is cut anywhere is no damaged one":         cuts,
		"an answer is whole or says that it is not":               damages,
		"what came in the place of an answer is told":             noAnswer,
		"what fails outside of HTTP is told":                      outside,
		"nothing is read without bound":                           bounds,
		"a body that does not end holds nothing back":             holds,
		"a failing stream closes its connection":                  inBand,
		"a failure is told alike in one piece and in a stream":    alike,
		"no error carries a key":                                  secrets,
		"a short key is taken out as a word":                      shortKeys,
		"nothing that is printed has a key":                       prints,
		"the key is asked for each call":                          keys,
		"a key that cannot be had ends the call unsent":           noKey,
		"a call is one request by its own client, whatever fails": once,
	} {
		t.Run(name, func(t *testing.T) { f(t, &a) })
	}
}

// is checks how far a call got.
func is(t *testing.T, e *llm.Error, class llm.Class, phase llm.Phase, commit llm.CommitState) {
	t.Helper()
	if e.Class != class || e.Evidence.Phase != phase || e.Commit != commit {
		t.Errorf("%v: class %v, phase %v, commit %v; want %v, %v, %v", e, e.Class, e.Evidence.Phase, e.Commit, class, phase, commit)
	}
}

func cancels(t *testing.T, a *API) {
	for _, way := range []struct {
		name  string
		cause error
		class llm.Class
	}{
		{"the caller leaves", nil, llm.Canceled},
		{"the caller leaves with a reason", errors.New("the user closed the tab"), llm.Canceled},
		{"a stage's limit fires", llm.Limit(llm.Stalled, "no token within 5s"), llm.Stalled},
	} {
		for _, place := range []struct {
			name       string
			status     int
			kind, body string
			streamed   bool
			phase      llm.Phase
		}{
			{"before headers", 0, "", "", false, llm.PhaseSend},
			{"before headers of a stream", 0, "", "", true, llm.PhaseSend},
			{"in a failure", 503, JSON, "{", false, llm.PhaseHeaders},
			{"in the body", 200, JSON, a.Cut, false, llm.PhaseBody},
			{"before the first event", 200, a.Kind, a.Silent, true, llm.PhaseStream},
			{"in the stream", 200, a.Kind, a.Hel, true, llm.PhaseStream},
			{"in a body of unknown kind", 200, "text/plain", " ", true, llm.PhaseBody},
		} {
			t.Run(way.name+"/"+place.name, func(t *testing.T) {
				s := Stall(place.status, place.kind, place.body)
				headers, next := make(chan struct{}), Client(t) // headers came in
				m := a.serve(t, s, Settings{HTTP: &http.Client{Transport: RoundTripper(func(r *http.Request) (*http.Response, error) {
					defer close(headers)
					return next.Transport.RoundTrip(r)
				})}})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				req, streaming := Ask("hi"), make(chan struct{}, 1)
				if place.streamed {
					req.Sink = func(llm.Delta) error { streaming <- struct{}{}; return nil }
				}
				hel := place.body == a.Hel
				go func() {
					<-s.Reached
					if place.kind != "" {
						<-headers
					}
					if hel {
						<-streaming
					}
					cancel(way.cause)
				}()
				resp, err := m.Call(ctx, req)
				e := Failure(t, resp, err)
				if e.Class != way.class || way.cause != nil && way.class == llm.Canceled && !errors.Is(err, way.cause) {
					t.Errorf("got %v of class %v, want %v", err, e.Class, way.class)
				}
				if errors.Is(err, context.Canceled) != (way.class == llm.Canceled) {
					t.Errorf("is context.Canceled: %v", errors.Is(err, context.Canceled))
				}
				commit := llm.CommitUnknown
				if hel {
					commit = llm.Committed
				}
				if e.Evidence.Phase != place.phase || e.Commit != commit && place.status != 503 {
					t.Errorf("phase %v, commit %v; want %v, %v", e.Evidence.Phase, e.Commit, place.phase, commit)
				}
				if (e.Partial.Text() == "Hel") != hel {
					t.Errorf("Partial %+v", e.Partial)
				}
				<-s.Closed
			})
		}
	}
}

func deadlines(t *testing.T, a *API) {
	silent := RoundTripper(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		resp, err := a.New(Settings{HTTP: &http.Client{Transport: silent}}).Call(ctx, Ask("hi"))
		if e := Failure(t, resp, err); e.Class != llm.Exhausted {
			t.Errorf("the caller's deadline gave %v", e)
		}
		resp, err = a.New(Settings{HTTP: &http.Client{Transport: silent, Timeout: time.Minute}}).Call(t.Context(), Ask("hi"))
		if e := Failure(t, resp, err); e.Class != llm.Timeout {
			t.Errorf("a timeout of the client gave %v of class %v", e, e.Class)
		}
	})
}

func canceledBefore(t *testing.T, a *API) {
	s := &Recorder{Next: Says(200, JSON, a.Whole)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	resp, err := a.serve(t, s, Settings{}).Call(ctx, Ask("hi"))
	if e := Failure(t, resp, err); e.Class != llm.Canceled || e.Commit != llm.CommitNone || s.Calls() != 0 {
		t.Errorf("got %v, commit %v, %d requests", e, e.Commit, s.Calls())
	}
}

func connects(t *testing.T, a *API) {
	dialing, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	m := a.New(Settings{URL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			close(dialing)
			<-over // net/http lets a dial go on for the next request
			return nil, net.ErrClosed
		}}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-dialing
		cancel()
	}()
	resp, err := m.Call(ctx, Ask("hi"))
	is(t, Failure(t, resp, err), llm.Canceled, llm.PhaseConnect, llm.CommitNone)
}

func leaves(t *testing.T, a *API) {
	s := Stall(200, a.Kind, a.Hel)
	for d, err := range llm.Stream(t.Context(), a.serve(t, s, Settings{}), Ask("hi")) {
		if err != nil || d.Text != "Hel" {
			t.Errorf("got %+v, %v", d, err)
		}
		break
	}
	<-s.Closed
	s = Stall(200, a.Kind, a.Hel)
	m := a.serve(t, s, Settings{})
	req := Ask("hi")
	req.Sink = func(llm.Delta) error { panic("sink") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = m.Call(t.Context(), req)
	}()
	<-s.Closed
}

func sinks(t *testing.T, a *API) {
	full := errors.New("the disk is full")
	req := Ask("hi")
	n := 0
	req.Sink = func(llm.Delta) error { n++; return full }
	s := Stall(200, a.Kind, a.Hel)
	resp, err := a.serve(t, s, Settings{}).Call(t.Context(), req)
	e := Failure(t, resp, err)
	if !errors.Is(err, full) || e.Partial.Text() != "Hel" || n != 1 {
		t.Errorf("got %v after %d deltas, Partial %+v", err, n, e.Partial)
	}
	is(t, e, llm.Canceled, llm.PhaseStream, llm.Committed)
	<-s.Closed
	resp, err = a.serve(t, Says(200, JSON, a.Whole), Settings{}).Call(t.Context(), req)
	if e := Failure(t, resp, err); !errors.Is(err, full) || e.Class != llm.Canceled || e.Commit != llm.Committed {
		t.Errorf("in one piece: %v, commit %v", err, e.Commit)
	}
}

func phases(t *testing.T, a *API) {
	for _, c := range []struct {
		name     string
		h        http.Handler
		streamed bool
		class    llm.Class
		phase    llm.Phase
		commit   llm.CommitState
	}{
		{"before the headers", HangUp(0, "", ""), false, llm.Unavailable, llm.PhaseSend, llm.CommitUnknown},
		{"in a failure's body", HangUp(429, JSON, "{"), false, llm.RateLimited, llm.PhaseHeaders, llm.CommitNone},
		{"before an answer", HangUp(200, JSON, ""), false, llm.Interrupted, llm.PhaseBody, llm.CommitUnknown},
		{"in an answer", HangUp(200, JSON, a.Cut), false, llm.Interrupted, llm.PhaseBody, llm.CommitUnknown},
		{"before a stream", HangUp(200, a.Kind, ""), true, llm.Interrupted, llm.PhaseStream, llm.CommitUnknown},
		{"before a stream's text", HangUp(200, a.Kind, a.Silent), true, llm.Interrupted, llm.PhaseStream, llm.CommitUnknown},
		{"in a stream", HangUp(200, a.Kind, a.Hel), true, llm.Interrupted, llm.PhaseStream, llm.Committed},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := Ask("hi")
			if c.streamed {
				req = Streamed(&llm.Accumulator{})
			}
			resp, err := a.serve(t, c.h, Settings{}).Call(t.Context(), req)
			e := Failure(t, resp, err)
			is(t, e, c.class, c.phase, c.commit)
			if c.streamed && e.Usage.Input == 0 && c.commit == llm.Committed {
				t.Errorf("the input of an answer that came in part is not counted: %+v", e.Usage)
			}
		})
	}
	t.Run("after a stream's end", func(t *testing.T) {
		_, resp, err := Collect(t.Context(), a.serve(t, HangUp(200, a.Kind, a.Hello), Settings{}), Ask("hi"))
		if err != nil || resp.Text() != "Hello" {
			t.Errorf("the answer is whole, but the call gave %+v, %v", resp, err)
		}
	})
	t.Run("before the connection", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		m := a.New(Settings{URL: server.URL})
		server.Close()
		resp, err := m.Call(t.Context(), Ask("hi"))
		is(t, Failure(t, resp, err), llm.Unavailable, llm.PhaseConnect, llm.CommitNone)
	})
}

func outside(t *testing.T, a *API) {
	for _, c := range []struct {
		err    error
		class  llm.Class
		phase  llm.Phase
		commit llm.CommitState
	}{
		{errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=795, ErrCode=ENHANCE_YOUR_CALM, debug=""`),
			llm.RateLimited, llm.PhaseSend, llm.CommitUnknown},
		{errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""`),
			llm.Unavailable, llm.PhaseSend, llm.CommitUnknown},
		{errors.New(`tls: failed to verify certificate: x509: certificate has expired`),
			llm.Unsupported, llm.PhaseConnect, llm.CommitNone},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, llm.Unavailable, llm.PhaseConnect, llm.CommitNone},
		{errors.New("odd"), llm.Unknown, llm.PhaseSend, llm.CommitUnknown}, // of a transport that cannot be watched
		{&url.Error{Op: "Post", URL: "http://h/path?key=k", Err: errors.New("odd")}, llm.Unknown, llm.PhaseSend, llm.CommitUnknown},
	} {
		resp, err := a.New(Settings{URL: "http://h/path", HTTP: Failing(c.err)}).Call(t.Context(), Ask("hi"))
		e := Failure(t, resp, err)
		is(t, e, c.class, c.phase, c.commit)
		if strings.Contains(e.Error(), "http://h") {
			t.Errorf("the address is in %v", e)
		}
	}
}

func bounds(t *testing.T, a *API) {
	for _, c := range []struct {
		name       string
		status     int
		kind, text string
		class      llm.Class
		most       int
	}{
		{"a failure", 503, JSON, "x", llm.Unavailable, 1 << 20},
		{"an answer", 200, JSON, "[", llm.BadOutput, 65 << 20},
		{"a stream of nothing", 200, a.Kind, "x", llm.BadOutput, 65 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := &Endless{Text: strings.Repeat(c.text, 32<<10)}
			m := a.New(Settings{HTTP: InMemory(c.status, c.kind, func(context.Context) io.Reader { return body })})
			resp, err := m.Call(t.Context(), Streamed(&llm.Accumulator{}))
			e := Failure(t, resp, err)
			if e.Class != c.class || e.Evidence.Status != c.status || body.N > c.most {
				t.Errorf("%d bytes were read; %v, status %d", body.N, e, e.Evidence.Status)
			}
			if n := len(e.Evidence.Body); n > 64<<10 || n != 64<<10 && c.status == 503 {
				t.Errorf("the evidence has %d bytes", n)
			}
		})
	}
}

func holds(t *testing.T, a *API) {
	synctest.Test(t, func(t *testing.T) {
		hanging := func(status int, kind, body string) llm.Caller {
			return a.New(Settings{HTTP: InMemory(status, kind, func(ctx context.Context) io.Reader { return Hanging(ctx, body) })})
		}
		from := time.Now()
		resp, err := hanging(503, JSON, a.Failure("the server is bus")[:20]).Call(t.Context(), Ask("hi"))
		if e := Failure(t, resp, err); e.Class != llm.Unavailable && e.Class != llm.Overloaded || time.Since(from) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(from), e)
		}
		from = time.Now()
		_, resp, err = Collect(t.Context(), hanging(200, a.Kind, a.Hello), Ask("hi"))
		if took := time.Since(from); err != nil || resp.Text() != "Hello" || took > 5*time.Second {
			t.Errorf("after %v: %+v, %v", took, resp, err)
		}
	})
	body := &Parts{Left: []string{a.Hello[:len(a.Hello)/2], a.Hello[len(a.Hello)/2:]}}
	m := a.New(Settings{HTTP: InMemory(200, a.Kind, func(context.Context) io.Reader { return body })})
	if _, _, err := Collect(t.Context(), m, Ask("hi")); err != nil || !body.Ended { // else the connection could not be used again
		t.Errorf("the end was seen: %v; %v", body.Ended, err)
	}
}

func inBand(t *testing.T, a *API) {
	s := Stall(200, a.Kind, a.Hel+a.InBand("the server is overloaded"))
	_, resp, err := Collect(t.Context(), a.serve(t, s, Settings{}), Ask("hi"))
	e := Failure(t, resp, err)
	if e.Class == llm.Canceled || e.Partial.Text() != "Hel" || !strings.Contains(e.Error(), "overloaded") {
		t.Errorf("got %v", e)
	}
	<-s.Closed
}
