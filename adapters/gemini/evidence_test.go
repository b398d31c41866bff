package gemini_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
)

// A fixture is an HTTP answer in testdata: the status on the first line, then headers, a blank line, and the body.
type fixture struct {
	status int
	header http.Header
	body   string
}

func load(t testing.TB, name string) fixture {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "failures", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(strings.NewReader(string(raw)))
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	status, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	header, err := textproto.NewReader(in).ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return fixture{status, http.Header(header), string(body)}
}

func (f fixture) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	maps.Copy(w.Header(), f.header)
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body)
}

func TestEvidenceReachesTheErrorUndamaged(t *testing.T) {
	type want struct {
		class  llm.Class
		wait   time.Duration
		commit llm.CommitState
		id     string
		vertex bool
	}
	wants := map[string]want{
		"per_minute":           {class: llm.RateLimited, wait: 31251 * time.Millisecond},
		"per_day":              {class: llm.Quota, wait: 12500 * time.Millisecond},
		"shared_capacity_list": {class: llm.RateLimited, vertex: true},
		"retry_after_header":   {class: llm.RateLimited, wait: 7 * time.Second, id: "gateway-7"},
		"prepaid":              {class: llm.Quota},
		"overloaded":           {class: llm.Overloaded},
		"capacity_hint":        {class: llm.Overloaded, wait: 4250 * time.Millisecond},
		"internal":             {class: llm.Unavailable, commit: llm.CommitUnknown},
		"deadline":             {class: llm.Timeout, commit: llm.CommitUnknown},
		"cancelled":            {class: llm.Unavailable, commit: llm.CommitUnknown},
		"bad_key":              {class: llm.Auth},
		"location":             {class: llm.Auth},
		"suspended":            {class: llm.Auth},
		"token_expired":        {class: llm.Auth, vertex: true},
		"too_long":             {class: llm.TooLong},
		"no_model":             {class: llm.NotFound},
		"echoed_number":        {class: llm.Invalid},
		"error_in_200":         {class: llm.RateLimited},
		"error_list_in_200":    {class: llm.Overloaded},
		"html_200":             {class: llm.BadOutput, commit: llm.Committed},
		"html_502":             {class: llm.Unavailable, commit: llm.CommitUnknown},
		"empty_200":            {class: llm.BadOutput, commit: llm.Committed},
		"empty_object_200":     {class: llm.BadOutput, commit: llm.Committed},
		"empty_list_200":       {class: llm.BadOutput, commit: llm.Committed},
		"usage_alone_200":      {class: llm.BadOutput, commit: llm.Committed},
		"cut_json_200":         {class: llm.BadOutput, commit: llm.Committed},
		"redirect":             {class: llm.NotFound},
	}
	files, err := filepath.Glob(filepath.Join("testdata", "failures", "*.http"))
	if err != nil || len(files) != len(wants) {
		t.Errorf("%d fixtures for %d expectations, %v", len(files), len(wants), err)
	}
	for name, want := range wants {
		for _, streamed := range []bool{false, true} {
			form := "/whole"
			if streamed {
				form = "/streamed"
			}
			t.Run(name+form, func(t *testing.T) {
				f := load(t, name)
				var calls atomic.Int32
				m := serve(t, func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					f.serve(w, r)
				}, func(c *gemini.Config) {
					if want.vertex {
						c.Project = "my-project"
					}
				})
				req := ask("hi")
				if streamed {
					req.Sink = func(d llm.Delta) error { t.Errorf("a delta came: %+v", d); return nil }
				}
				resp, err := m.Call(t.Context(), req)
				e := failure(t, resp, err)
				ev := e.Evidence
				if e.Class != want.class || e.RetryAfter != want.wait || e.CoolUntil || e.Commit != want.commit {
					t.Errorf("%v: class %v (%s), wait %v, until %v, commit %v; want %+v", e, e.Class, e.Rule, e.RetryAfter, e.CoolUntil, e.Commit, want)
				}
				if _, word, ok := strings.Cut(f.body, `"status":`); ok && ev.Type != strings.Split(word, `"`)[1] || ok && ev.Message == "" {
					t.Errorf("type %q, message %q", ev.Type, ev.Message)
				}
				if body := strings.ReplaceAll(f.body, madeUp, "[redacted]"); ev.Body != body {
					t.Errorf("body %q, want %q", ev.Body, body)
				}
				if ev.Status != f.status || ev.Header.Get("Content-Type") != f.header.Get("Content-Type") || ev.Header.Get("Retry-After") != f.header.Get("Retry-After") {
					t.Errorf("status %d, header %v", ev.Status, ev.Header)
				}
				provider := "gemini"
				if want.vertex {
					provider = "vertex"
				}
				if e.Provider != provider || e.Model != "gemini-2.5-flash" || e.RequestID != want.id {
					t.Errorf("provider %q, model %q, id %q", e.Provider, e.Model, e.RequestID)
				}
				if ev.Phase != llm.PhaseHeaders && ev.Phase != llm.PhaseBody || e.Partial != nil {
					t.Errorf("phase %v, Partial %+v", ev.Phase, e.Partial)
				}
				if strings.Contains(f.body, `"usageMetadata"`) != (e.Usage.Input == 9) {
					t.Errorf("usage %+v", e.Usage)
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
	for _, c := range []struct {
		name     string
		h        http.HandlerFunc
		streamed bool
		class    llm.Class
		phase    llm.Phase
		commit   llm.CommitState
	}{
		{"reset before headers", abort(""), false, llm.Unavailable, llm.PhaseSend, llm.CommitUnknown},
		{"cut within an answer", abort(`{"candidates":[{"con`, "Content-Type", jsonType, "Content-Length", "500"), false,
			llm.Interrupted, llm.PhaseBody, llm.CommitUnknown},
		{"cut before a stream's first event", abort(": ping\n\n", "Content-Type", sseType), true, llm.Interrupted, llm.PhaseStream, llm.CommitUnknown},
		{"cut within a stream", abort(events(piece("Hel")), "Content-Type", sseType), true, llm.Interrupted, llm.PhaseStream, llm.Committed},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := ask("hi")
			if c.streamed {
				req.Sink = func(llm.Delta) error { return nil }
			}
			resp, err := serve(t, c.h).Call(t.Context(), req)
			e := failure(t, resp, err)
			if e.Class != c.class || e.Evidence.Phase != c.phase || e.Commit != c.commit {
				t.Errorf("%v: class %v, phase %v, commit %v; want %v, %v, %v", e, e.Class, e.Evidence.Phase, e.Commit, c.class, c.phase, c.commit)
			}
		})
	}
	t.Run("a stream cut after its end is whole", func(t *testing.T) {
		_, resp, err := collect(t, serve(t, abort(events(chunk(`{"text":"Hi"}`, stop, used)), "Content-Type", sseType)), ask("hi"))
		if err != nil || resp.Text() != "Hi" {
			t.Errorf("got %+v, %v", resp, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		m := gemini.New(gemini.Config{BaseURL: server.URL, Model: "m"})
		server.Close()
		resp, err := m.Call(t.Context(), ask("hi"))
		if e := failure(t, resp, err); e.Class != llm.Unavailable || e.Evidence.Phase != llm.PhaseConnect || e.Commit != llm.CommitNone {
			t.Errorf("%v: class %v, phase %v, commit %v", e, e.Class, e.Evidence.Phase, e.Commit)
		}
	})
	for _, c := range []struct {
		name   string
		err    error
		phase  llm.Phase
		commit llm.CommitState
	}{
		{"a transport that cannot be watched", errors.New("odd"), llm.PhaseSend, llm.CommitUnknown},
		{"a transport that cannot be watched, dialing", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, llm.PhaseConnect, llm.CommitNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := gemini.New(gemini.Config{Model: "m", HTTPClient: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				return nil, c.err
			})}})
			resp, err := m.Call(t.Context(), ask("hi"))
			if e := failure(t, resp, err); e.Evidence.Phase != c.phase || e.Commit != c.commit {
				t.Errorf("%v: phase %v, commit %v", e, e.Evidence.Phase, e.Commit)
			}
		})
	}
}

func TestAHugeFailureIsReadToItsStart(t *testing.T) {
	written := make(chan int, 1)
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
		n, data := 0, []byte(strings.Repeat("x", 1<<20))
		for n < 1<<30 {
			if _, err := w.Write(data); err != nil {
				break
			}
			n += len(data)
		}
		written <- n
	})
	resp, err := m.Call(t.Context(), ask("hi"))
	e := failure(t, resp, err)
	if e.Evidence.Status != http.StatusServiceUnavailable || len(e.Evidence.Body) != 64<<10 {
		t.Errorf("status %d, %d bytes of body", e.Evidence.Status, len(e.Evidence.Body))
	}
	if n := <-written; n > 64<<20 {
		t.Errorf("the server could send %d MiB", n>>20)
	}
}

func TestNoErrorCarriesAKey(t *testing.T) {
	const key, other = "pb_plain-looking", "other-secret-value"
	leak := `{"error":{"code":400,"message":"bad key ` + key + `, ` + other + ` and ` + madeUp + `","status":"` + key + `"}}`
	handlers := map[string]http.HandlerFunc{
		"failure": says(401, jsonType, leak, "X-Echo", key, "Set-Cookie", "session="+other),
		"stream":  says(200, sseType, events(leak)),
		"partial": says(200, sseType, events(piece("Hel"), leak)),
		"page":    says(200, "text/html", "<p>"+key+" "+other+" "+madeUp),
	}
	secret := func(c *gemini.Config) {
		c.APIKey, c.Header = key, http.Header{"X-Gateway-Token": {other}}
	}
	for name, h := range handlers {
		t.Run(name, func(t *testing.T) {
			_, resp, err := collect(t, serve(t, h, secret), ask("hi"))
			hasNoKey(t, failure(t, resp, err), key, other, madeUp)
		})
	}
	t.Run("transport", func(t *testing.T) {
		m := gemini.New(gemini.Config{Model: "m", APIKey: key, BaseURL: "http://user:" + other + "@127.0.0.1", HTTPClient: &http.Client{
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				at := "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent?key=" + madeUp
				return nil, &url.Error{Op: "Post", URL: at, Err: errors.New("cannot send " + r.Header.Get("X-Goog-Api-Key") + " to " + at)}
			})}})
		resp, err := m.Call(t.Context(), ask("hi"))
		hasNoKey(t, failure(t, resp, err), key, other, madeUp)
	})
	t.Run("address", func(t *testing.T) {
		m := gemini.New(gemini.Config{Model: "m", BaseURL: "http://127.0.0.1", HTTPClient: &http.Client{
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: errors.New("odd")}
			})}})
		resp, err := m.Call(t.Context(), ask("hi"))
		if e := failure(t, resp, err); strings.Contains(e.Error(), "http") || !strings.Contains(e.Error(), "odd") {
			t.Errorf("the error repeats the address: %v", e)
		}
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

func TestAKeyThatCannotBeHadEndsTheCallUnsent(t *testing.T) {
	for _, c := range []struct {
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
	} {
		t.Run(c.name, func(t *testing.T) {
			var s recorder
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := serve(t, s.serve, func(cfg *gemini.Config) {
				cfg.APIKey, cfg.Key = "", func(context.Context) (string, error) {
					if c.want == llm.Canceled {
						cancel()
					}
					return c.key, c.err
				}
			})
			resp, err := m.Call(ctx, ask("hi"))
			e := failure(t, resp, err)
			if e.Class != c.want || e.Commit != llm.CommitNone || s.calls != 0 || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("got %v, commit %v, %d requests", e, e.Commit, s.calls)
			}
		})
	}
}
