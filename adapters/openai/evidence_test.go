package openai_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
)

func TestEvidenceOfFailures(t *testing.T) {
	tests := []struct {
		name     string
		provider string
		class    llm.Class
		code     string
		wait     time.Duration
	}{
		{"rate_limit", "", llm.RateLimited, "rate_limit_exceeded", 494 * time.Millisecond},
		{"quota", "", llm.Quota, "insufficient_quota", 0},
		{"context_length", "", llm.TooLong, "context_length_exceeded", 0},
		{"model_not_found", "", llm.NotFound, "model_not_found", 0},
		{"key", "", llm.Auth, "invalid_api_key", 0},
		{"policy", "", llm.Refused, "content_policy_violation", 0},
		{"server_error", "", llm.Unavailable, "", 0},
		{"overloaded", "", llm.Overloaded, "", 0},
		{"azure_filter", "azure", llm.Refused, "content_filter", 0},
		{"azure_deployment", "azure", llm.NotFound, "DeploymentNotFound", 0},
		{"deepseek_balance", "deepseek", llm.Quota, "invalid_request_error", 0},
		{"xai_credits", "xai", llm.Quota, "", 0},
		{"groq_tools", "groq", llm.BadOutput, "tool_use_failed", 0},
		{"mistral_flat", "mistral", llm.Overloaded, "3505", 0},
		{"ollama_text", "ollama", llm.NotFound, "", 0},
		{"vllm_flat", "vllm", llm.TooLong, "400", 0},
		{"openrouter_nested", "openrouter", llm.TooLong, "", 0},
		{"error_in_200", "openrouter", llm.RateLimited, "429", 0},
		{"html_502", "", llm.Unavailable, "", 0},
		{"html_200", "", llm.BadOutput, "", 0},
		{"empty_200", "", llm.BadOutput, "", 0},
		{"cut_json_200", "", llm.BadOutput, "", 0},
		{"no_choices_200", "", llm.BadOutput, "", 0},
		{"redirect", "", llm.NotFound, "", 0},
		{"echoed_token", "", llm.Invalid, "", 0},
	}
	for _, tt := range tests {
		for _, streamed := range []bool{false, true} {
			name := tt.name
			if streamed {
				name += "/streamed"
			}
			t.Run(name, func(t *testing.T) {
				f := load(t, "failures/"+tt.name+".http")
				var calls atomic.Int32
				m := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					f.ServeHTTP(w, r)
				}), openai.Config{Provider: tt.provider, Model: "m-1"})
				req := ask("hi")
				if streamed {
					req.Sink = func(d llm.Delta) error { t.Errorf("a delta came: %+v", d); return nil }
				}
				resp, err := m.Call(t.Context(), req)
				e := failure(t, resp, err)
				ev := e.Evidence
				if e.Class != tt.class || ev.Code != tt.code && tt.code != "" || e.RetryAfter != tt.wait {
					t.Errorf("class %v (%s), code %q, wait %v; want %v, %q, %v; %v", e.Class, e.Rule, ev.Code, e.RetryAfter, tt.class, tt.code, tt.wait, e)
				}
				if want := f.body; ev.Body != want {
					t.Errorf("body %q, want %q", ev.Body, want)
				}
				if ev.Status != f.status || ev.Header.Get("Content-Type") != f.header.Get("Content-Type") {
					t.Errorf("status %d, headers %v", ev.Status, ev.Header)
				}
				if e.RequestID != f.header.Get("X-Request-Id") {
					t.Errorf("request id %q", e.RequestID)
				}
				if provider := tt.provider; e.Provider != provider && (provider != "" || e.Provider != "openai") || e.Model != "m-1" {
					t.Errorf("provider %q, model %q", e.Provider, e.Model)
				}
				if ev.Phase != llm.PhaseHeaders && ev.Phase != llm.PhaseBody || e.Partial != nil || e.Usage != (llm.Usage{}) {
					t.Errorf("phase %v, Partial %+v, usage %+v", ev.Phase, e.Partial, e.Usage)
				}
				if n := calls.Load(); n != 1 {
					t.Errorf("%d requests for one call, want 1", n)
				}
			})
		}
	}
}

func TestPhaseAndCommitOfBrokenConnections(t *testing.T) {
	abort := func(after string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			if after != "" {
				_, _ = io.WriteString(w, after)
				_ = http.NewResponseController(w).Flush()
			}
			panic(http.ErrAbortHandler)
		}
	}
	tests := []struct {
		name     string
		h        http.Handler
		streamed bool
		class    llm.Class
		phase    llm.Phase
		commit   llm.CommitState
	}{
		{"reset before headers", abort(""), false, llm.Unavailable, llm.PhaseSend, llm.CommitUnknown},
		{"cut within an answer", abort(`{"choices":[{"mess`, "Content-Type", json, "Content-Length", "500"), false,
			llm.Interrupted, llm.PhaseBody, llm.CommitUnknown},
		{"cut before a stream's first event", abort(": hi\n\n", "Content-Type", sse), true, llm.Interrupted, llm.PhaseStream, llm.CommitUnknown},
		{"cut within a stream", abort(first, "Content-Type", sse), true, llm.Interrupted, llm.PhaseStream, llm.Committed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := serve(t, tt.h, openai.Config{})
			req := ask("hi")
			if tt.streamed {
				req.Sink = func(llm.Delta) error { return nil }
			}
			resp, err := m.Call(t.Context(), req)
			e := failure(t, resp, err)
			if e.Class != tt.class || e.Evidence.Phase != tt.phase || e.Commit != tt.commit {
				t.Errorf("%v: class %v, phase %v, commit %v; want %v, %v, %v", e, e.Class, e.Evidence.Phase, e.Commit, tt.class, tt.phase, tt.commit)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		srv := httptest.NewServer(http.NotFoundHandler())
		m := openai.New(openai.Config{BaseURL: srv.URL, Model: "m"})
		srv.Close()
		resp, err := m.Call(t.Context(), ask("hi"))
		if e := failure(t, resp, err); e.Class != llm.Unavailable || e.Evidence.Phase != llm.PhaseConnect || e.Commit != llm.CommitNone {
			t.Errorf("%v: class %v, phase %v, commit %v", e, e.Class, e.Evidence.Phase, e.Commit)
		}
	})
	t.Run("a transport that cannot be watched", func(t *testing.T) {
		m := openai.New(openai.Config{Model: "m", HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("odd")
		})}})
		resp, err := m.Call(t.Context(), ask("hi"))
		e := failure(t, resp, err)
		if strings.Contains(e.Error(), "chat/completions") {
			t.Errorf("the address is in %v", e)
		}
		if e.Evidence.Phase != llm.PhaseSend || e.Commit != llm.CommitUnknown {
			t.Errorf("%v: phase %v, commit %v", e, e.Evidence.Phase, e.Commit)
		}
	})
	t.Run("a transport that cannot be watched, dialing", func(t *testing.T) {
		m := openai.New(openai.Config{Model: "m", HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		})}})
		resp, err := m.Call(t.Context(), ask("hi"))
		if e := failure(t, resp, err); e.Evidence.Phase != llm.PhaseConnect || e.Commit != llm.CommitNone {
			t.Errorf("%v: phase %v, commit %v", e, e.Evidence.Phase, e.Commit)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAHugeFailureIsReadToItsStart(t *testing.T) {
	written := make(chan int, 1)
	m := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
		n, piece := 0, []byte(strings.Repeat("x", 1<<20))
		for n < 1<<30 {
			if _, err := w.Write(piece); err != nil {
				break
			}
			n += len(piece)
		}
		written <- n
	}), openai.Config{})
	resp, err := m.Call(t.Context(), ask("hi"))
	e := failure(t, resp, err)
	if e.Evidence.Status != http.StatusServiceUnavailable || len(e.Evidence.Body) != 64<<10 {
		t.Errorf("status %d, %d bytes of body", e.Evidence.Status, len(e.Evidence.Body))
	}
	if n := <-written; n > 64<<20 {
		t.Errorf("the server could send %d MiB", n>>20)
	}
}

func TestAFailureWhoseBodyNeverEndsIsStillReported(t *testing.T) {
	closed := make(chan struct{})
	m := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"slow down"`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(closed)
	}), openai.Config{})
	resp, err := m.Call(t.Context(), ask("hi"))
	e := failure(t, resp, err)
	if e.Class != llm.RateLimited || e.RetryAfter != 7*time.Second || !strings.Contains(e.Error(), "slow down") {
		t.Errorf("got %v, wait %v", e, e.RetryAfter)
	}
	<-closed
}

func TestNoErrorCarriesAKey(t *testing.T) {
	const key, other = "pb_plain-looking", "other-secret-value"
	leak := `{"error":{"message":"bad key ` + key + ` and ` + other + `","code":"` + key + `","param":"` + key + `"}}`
	handlers := map[string]http.Handler{
		"failure": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Echo", key)
			w.Header().Set("Set-Cookie", "session="+other)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, leak)
		}),
		"stream":  answer(sse, "data: "+leak+"\n\n"),
		"partial": answer(sse, first+"data: "+leak+"\n\n"),
		"page":    answer("text/html", "<p>"+key+" "+other),
	}
	cfg := openai.Config{APIKey: key, Header: http.Header{"X-Gateway-Token": {other}}}
	for name, h := range handlers {
		t.Run(name, func(t *testing.T) {
			_, resp, err := collect(t.Context(), serve(t, h, cfg), ask("hi"))
			hasNoKey(t, failure(t, resp, err), key, other)
		})
	}
	t.Run("transport", func(t *testing.T) {
		c := cfg
		c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return nil, errors.New("cannot send " + r.Header.Get("Authorization") + " to " + r.URL.String())
		})}
		c.Model, c.BaseURL = "m", "http://user:"+other+"@127.0.0.1/v1?key="+other
		resp, err := openai.New(c).Call(t.Context(), ask("hi"))
		hasNoKey(t, failure(t, resp, err), key, other)
	})
}

func hasNoKey(t *testing.T, e *llm.Error, keys ...string) {
	t.Helper()
	for err := error(e); err != nil; err = errors.Unwrap(err) {
		in, ok := err.(*llm.Error) //nolint:errorlint // each link is looked at
		if !ok {
			continue
		}
		ev := in.Evidence
		text := strings.Join([]string{in.Error(), in.Message, ev.Body, ev.Message, ev.Code, ev.Param, ev.Type}, " ")
		for _, values := range ev.Header {
			text += strings.Join(values, " ")
		}
		for _, key := range keys {
			if strings.Contains(text, key) {
				t.Errorf("%q is in %s", key, text)
			}
		}
	}
}

func TestTheKeyFunctionIsAskedForEachCall(t *testing.T) {
	s := ok()
	n := 0
	m := serve(t, s, openai.Config{Key: func(context.Context) (string, error) {
		n++
		return "key-" + string(rune('0'+n)), nil
	}})
	for _, want := range []string{"Bearer key-1", "Bearer key-2"} {
		if _, err := m.Call(t.Context(), ask("hi")); err != nil {
			t.Fatal(err)
		}
		if got := s.header.Get("Authorization"); got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
}

func TestAKeyThatCannotBeHadEndsTheCallUnsent(t *testing.T) {
	tests := []struct {
		name string
		key  string
		err  error
		want llm.Class
	}{
		{"for no known reason", "", errors.New("vault is sealed"), llm.Auth},
		{"for a reason with a class", "", &llm.Error{Class: llm.RateLimited}, llm.RateLimited},
		{"for want of a network", "", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, llm.Unavailable},
		{"for a caller that left", "", context.Canceled, llm.Canceled},
		{"with a line break", "key\n", nil, llm.Auth},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := ok()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := serve(t, s, openai.Config{Key: func(context.Context) (string, error) {
				if tt.want == llm.Canceled {
					cancel()
				}
				return tt.key, tt.err
			}})
			resp, err := m.Call(ctx, ask("hi"))
			e := failure(t, resp, err)
			if e.Class != tt.want || e.Commit != llm.CommitNone || s.calls != 0 || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("got %v, commit %v, %d requests", e, e.Commit, s.calls)
			}
		})
	}
}
