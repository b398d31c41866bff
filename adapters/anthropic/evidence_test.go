package anthropic_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
)

// A fixture is an HTTP answer in testdata: the status on the first line, then headers, a blank line, and the body.
type fixture struct {
	status int
	header http.Header
	body   string
}

func load(t *testing.T, name string) fixture {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "evidence", name))
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
	return fixture{status, http.Header(header), strings.TrimSuffix(string(body), "\n")}
}

func (f fixture) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	maps.Copy(w.Header(), f.header)
	if f.header.Get("Content-Type") == "" {
		w.Header()["Content-Type"] = nil // no guess of the server's
	}
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body)
}

func TestEvidenceReachesTheErrorUndamaged(t *testing.T) {
	type want struct {
		class  llm.Class
		typ    string
		wait   time.Duration
		until  bool
		advice llm.Advice
		commit llm.CommitState
		id     string
	}
	wants := map[string]want{
		"429_rate":         {class: llm.RateLimited, typ: "rate_limit_error", wait: 16 * time.Second, advice: llm.AdviceRetry, id: "req_rate"},
		"429_reset_only":   {class: llm.RateLimited, typ: "rate_limit_error", wait: 12 * time.Second},
		"429_no_retry":     {class: llm.RateLimited, typ: "rate_limit_error", wait: 5 * time.Second, advice: llm.AdviceDontRetry},
		"429_long_context": {class: llm.Quota, typ: "rate_limit_error", id: "req_extra"},
		"400_credits":      {class: llm.Quota, typ: "invalid_request_error", advice: llm.AdviceDontRetry},
		"400_limits":       {class: llm.Quota, typ: "invalid_request_error", wait: 25*24*time.Hour + 16*time.Hour + 51*time.Minute + 52*time.Second, until: true},
		"402_billing":      {class: llm.Quota, typ: "billing_error"},
		"400_too_long":     {class: llm.TooLong, typ: "invalid_request_error"},
		"400_sum_too_long": {class: llm.TooLong, typ: "invalid_request_error"},
		"413_edge":         {class: llm.TooLong, typ: "request_too_large"},
		"400_invalid":      {class: llm.Invalid, typ: "invalid_request_error", id: "req_invalid"},
		"400_filter":       {class: llm.Refused, typ: "invalid_request_error"},
		"401_key":          {class: llm.Auth, typ: "authentication_error", advice: llm.AdviceDontRetry},
		"403_permission":   {class: llm.Auth, typ: "permission_error"},
		"403_region":       {class: llm.Auth, typ: "forbidden"},
		"404_model":        {class: llm.NotFound, typ: "not_found_error"},
		"500_api":          {class: llm.Unavailable, typ: "api_error", commit: llm.CommitUnknown},
		"500_overloaded":   {class: llm.Overloaded, typ: "api_error"},
		"503_envoy":        {class: llm.Unavailable},
		"504_timeout":      {class: llm.Timeout, typ: "timeout_error", commit: llm.CommitUnknown},
		"522_page":         {class: llm.Unavailable, commit: llm.CommitUnknown},
		"529_overloaded":   {class: llm.Overloaded, typ: "overloaded_error", advice: llm.AdviceRetry, id: "req_overloaded"},
		"308_redirect":     {class: llm.NotFound},
		"200_error":        {class: llm.Overloaded, typ: "overloaded_error"},
		"200_empty":        {class: llm.BadOutput, commit: llm.Committed},
		"200_cut":          {class: llm.BadOutput, commit: llm.Committed},
	}
	files, err := os.ReadDir(filepath.Join("testdata", "evidence"))
	if err != nil || len(files) != len(wants) {
		t.Fatalf("%d files for %d cases, %v", len(files), len(wants), err)
	}
	for name, w := range wants {
		f := load(t, name)
		for how, req := range map[string]*llm.Request{"whole": ask("Hello?"), "streamed": streamed(&llm.Accumulator{})} {
			t.Run(name+" "+how, func(t *testing.T) {
				resp, err := serve(t, f.serve).Call(t.Context(), req)
				e := llm.AsError(err)
				got := want{e.Class, e.Evidence.Type, e.RetryAfter, e.CoolUntil, e.Advice, e.Commit, e.RequestID}
				if resp != nil || got != w {
					t.Errorf("%v:\n got %+v (rule %s)\nwant %+v", err, got, e.Rule, w)
				}
				if e.Evidence.Status != f.status || e.Provider != "anthropic" || e.Model != "claude-test" {
					t.Errorf("status %d, provider %q, model %q", e.Evidence.Status, e.Provider, e.Model)
				}
				for h := range f.header {
					if e.Evidence.Header.Get(h) != f.header.Get(h) {
						t.Errorf("%s is %q, was sent as %q", h, e.Evidence.Header.Get(h), f.header.Get(h))
					}
				}
				if sent := strings.ReplaceAll(f.body, madeUp, "[redacted]"); e.Evidence.Body != sent {
					t.Errorf("the body is %q, was sent as %q", e.Evidence.Body, sent)
				}
			})
		}
	}
}

func TestErrorsCarryNoKeys(t *testing.T) {
	const key, token = "unlike-any-key-that-is-known", "a-gateway's-own-key"
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
	}{
		{"in a body", says(401, jsonType, `{"type":"error","error":{"type":"authentication_error","message":"bad key `+key+`, `+token+`"}}`)},
		{"in a header", says(500, "text/plain", "no", "X-Debug", "key="+key+" "+token)},
		{"in a stream", says(200, sseType, events(`{"type":"error","error":{"type":"api_error","message":"key `+key+` failed"}}`))},
		{"in a page", says(200, "text/html", "<p>"+key+token+"</p>")},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := serve(t, c.h, func(cfg *anthropic.Config) { cfg.APIKey, cfg.Header = key, http.Header{"X-Gateway-Key": {token}} })
			_, err := m.Call(t.Context(), streamed(&llm.Accumulator{}))
			e := llm.AsError(err)
			for e := error(e); e != nil; e = errors.Unwrap(e) {
				if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, key) || strings.Contains(text, token) {
					t.Errorf("the key is in %+v", e)
				}
			}
			if all := fmt.Sprintf("%+v %v", e.Evidence, e.Message); strings.Contains(all, key) || strings.Contains(all, token) {
				t.Errorf("the key is in %s", all)
			}
		})
	}
	t.Run("in an address", func(t *testing.T) {
		m := anthropic.New(anthropic.Config{BaseURL: "http://user:" + key + "@127.0.0.1:1/" + key, Model: "claude-test"})
		if _, err := m.Call(t.Context(), ask("Hello?")); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%v", err)
		}
	})
}

func TestPhaseAndCommitSayHowFarItGot(t *testing.T) {
	hangUp := func(w http.ResponseWriter) { // without the end that Content-Length promised
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		name   string
		h      http.HandlerFunc
		req    *llm.Request
		class  llm.Class
		phase  llm.Phase
		commit llm.CommitState
	}{
		{"before the headers", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		}, ask("Hello?"), llm.Unavailable, llm.PhaseSend, llm.CommitUnknown},
		{"in a failure's body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(529)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error"`)
			hangUp(w)
		}, ask("Hello?"), llm.Overloaded, llm.PhaseHeaders, llm.CommitNone},
		{"in an answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"id":"msg_1"`)
			hangUp(w)
		}, ask("Hello?"), llm.Interrupted, llm.PhaseBody, llm.CommitUnknown},
		{"in a stream", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", sseType)
			_, _ = io.WriteString(w, events(begun, opened, piece("Hel")))
			hangUp(w)
		}, streamed(&llm.Accumulator{}), llm.Interrupted, llm.PhaseStream, llm.Committed},
		{"in a stream before the text", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", sseType)
			_, _ = io.WriteString(w, events(begun, opened))
			hangUp(w)
		}, streamed(&llm.Accumulator{}), llm.Interrupted, llm.PhaseStream, llm.CommitUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := serve(t, c.h).Call(t.Context(), c.req)
			if e := llm.AsError(err); e.Class != c.class || e.Evidence.Phase != c.phase || e.Commit != c.commit {
				t.Errorf("%v: class %v, phase %v, commit %v; want %v, %v, %v", err, e.Class, e.Evidence.Phase, e.Commit, c.class, c.phase, c.commit)
			}
		})
	}
	t.Run("before the connection", func(t *testing.T) {
		m := anthropic.New(anthropic.Config{BaseURL: "http://127.0.0.1:1", Model: "claude-test"})
		_, err := m.Call(t.Context(), ask("Hello?"))
		if e := llm.AsError(err); e.Class != llm.Unavailable || e.Evidence.Phase != llm.PhaseConnect || e.Commit != llm.CommitNone {
			t.Errorf("%v: class %v, phase %v, commit %v", err, e.Class, e.Evidence.Phase, e.Commit)
		}
	})
}

func TestAFailuresTextOutsideHTTPIsClassified(t *testing.T) {
	for text, class := range map[string]llm.Class{
		`http2: server sent GOAWAY and closed the connection; LastStreamID=795, ErrCode=ENHANCE_YOUR_CALM, debug=""`: llm.RateLimited,
		`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""`:            llm.Unavailable,
		`tls: failed to verify certificate: x509: certificate has expired`:                                           llm.Unsupported,
	} {
		m := anthropic.New(anthropic.Config{Model: "claude-test", HTTPClient: &http.Client{
			Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New(text) }),
		}})
		if _, err := m.Call(t.Context(), ask("Hello?")); llm.ClassOf(err) != class || !strings.Contains(err.Error(), text) {
			t.Errorf("%v of class %v, want %v", err, llm.ClassOf(err), class)
		}
	}
}
