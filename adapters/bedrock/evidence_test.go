package bedrock_test

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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
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
	text := strings.NewReplacer("SESSIONTOKEN", madeUpToken, "ACCESSKEYID", madeUpID).Replace(string(raw))
	in := bufio.NewReader(strings.NewReader(text))
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
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body)
}

func TestEvidenceReachesTheErrorUndamaged(t *testing.T) {
	type want struct {
		class  llm.Class
		code   string
		wait   time.Duration
		commit llm.CommitState
		id     string
	}
	wants := map[string]want{
		"429_throttling":  {class: llm.RateLimited, code: "ThrottlingException", wait: 1250 * time.Millisecond, id: "req-rate"},
		"429_daily":       {class: llm.Quota, code: "ThrottlingException", id: "req-day"},
		"429_not_ready":   {class: llm.Overloaded, code: "ModelNotReadyException"},
		"400_quota":       {class: llm.Quota, code: "ServiceQuotaExceededException"},
		"400_too_long":    {class: llm.TooLong, code: "ValidationException"},
		"400_max_length":  {class: llm.TooLong, code: "ValidationException"},
		"400_invalid":     {class: llm.Invalid, code: "ValidationException", id: "req-invalid"},
		"400_on_demand":   {class: llm.NotFound, code: "ValidationException"},
		"400_identifier":  {class: llm.NotFound, code: "ValidationException"},
		"403_access":      {class: llm.NotFound, code: "AccessDeniedException"},
		"403_policy":      {class: llm.Auth, code: "AccessDeniedException"},
		"403_expired":     {class: llm.Auth, code: "ExpiredTokenException"},
		"403_token":       {class: llm.Auth, code: "UnrecognizedClientException"},
		"403_signature":   {class: llm.Auth, code: "InvalidSignatureException"},
		"404_model":       {class: llm.NotFound, code: "ResourceNotFoundException"},
		"408_timeout":     {class: llm.Timeout, code: "ModelTimeoutException", commit: llm.CommitUnknown},
		"424_model":       {class: llm.Unavailable, code: "ModelErrorException", commit: llm.CommitUnknown},
		"500_internal":    {class: llm.Unavailable, code: "InternalServerException", commit: llm.CommitUnknown, id: "req-500"},
		"503_unavailable": {class: llm.Unavailable, code: "ServiceUnavailableException"},
		"400_typed_body":  {class: llm.RateLimited},
		"502_page":        {class: llm.Unavailable, commit: llm.CommitUnknown},
		"503_page":        {class: llm.Unavailable},
		"413_edge":        {class: llm.TooLong},
		"307_redirect":    {class: llm.NotFound},
		"200_message":     {class: llm.BadOutput, commit: llm.Committed},
		"200_page":        {class: llm.BadOutput, commit: llm.Committed},
		"200_cut":         {class: llm.BadOutput, commit: llm.Committed},
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
				got := want{e.Class, e.Evidence.Code, e.RetryAfter, e.Commit, e.RequestID}
				if w.code == "" {
					got.code = ""
				}
				if resp != nil || got != w {
					t.Errorf("%v:\n got %+v (rule %s)\nwant %+v", err, got, e.Rule, w)
				}
				if e.Evidence.Status != f.status || e.Provider != "bedrock" || e.Model != "test.model-v1:0" {
					t.Errorf("status %d, provider %q, model %q", e.Evidence.Status, e.Provider, e.Model)
				}
				for h := range f.header {
					if e.Evidence.Header.Get(h) != f.header.Get(h) {
						t.Errorf("%s is %q, was sent as %q", h, e.Evidence.Header.Get(h), f.header.Get(h))
					}
				}
				clean := strings.NewReplacer(madeUpToken, "[redacted]", madeUpID, "[redacted]").Replace(f.body)
				if e.Evidence.Body != clean {
					t.Errorf("the body is %q, was sent as %q", e.Evidence.Body, f.body)
				}
			})
		}
	}
}

func TestABodyIsKeptToItsStart(t *testing.T) {
	m := serve(t, says(500, jsonType, `{"message":"`+strings.Repeat("x", 1<<20)+`"}`))
	_, err := m.Call(t.Context(), ask("Hello?"))
	if e := llm.AsError(err); len(e.Evidence.Body) != 64<<10 || e.Class != llm.Unavailable {
		t.Errorf("%d bytes of class %v", len(e.Evidence.Body), e.Class)
	}
}

func TestErrorsCarryNoSecrets(t *testing.T) {
	const own, header = "unlike-any-key-that-is-known", "a-gateway's-own-key"
	foreign := "ASIA" + "OTHERMADEUP00001"
	all := strings.Join([]string{own, header, madeUpID, madeUpSecret, madeUpToken, foreign}, " ")
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
	}{
		{"in a body", says(403, jsonType, `{"message":"bad signature of `+all+`"}`)},
		{"in a header", says(500, "text/plain", "no", "X-Debug", "key="+all)},
		{"in a stream", says(200, frameType, begun+exception("internalServerException", `{"message":"`+all+` failed"}`))},
		{"in a page", says(200, "text/html", "<p>"+all+"</p>")},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, change := range []func(*bedrock.Config){
				func(*bedrock.Config) {}, func(cfg *bedrock.Config) { cfg.Credentials, cfg.APIKey = nil, own },
			} {
				keyed := false
				m := serve(t, c.h, change, func(cfg *bedrock.Config) {
					keyed, cfg.Header = cfg.APIKey != "", http.Header{"X-Gateway-Key": {header}}
				})
				hidden := []string{header, foreign, madeUpID, madeUpSecret, madeUpToken}
				if keyed {
					hidden = []string{header, foreign, own}
				}
				if c.name == "in a header" { // where only the call's own are looked for
					hidden = slices.DeleteFunc(hidden, func(s string) bool { return s == foreign })
				}
				_, err := m.Call(t.Context(), streamed(&llm.Accumulator{}))
				e := llm.AsError(err)
				texts := fmt.Sprintf("%+v %v", e.Evidence, e.Message)
				for e := error(e); e != nil; e = errors.Unwrap(e) {
					texts += fmt.Sprintf("%v %+v", e, e)
				}
				for _, secret := range hidden {
					if strings.Contains(texts, secret) {
						t.Errorf("%s is in %s", secret, texts)
					}
				}
			}
		})
	}
	t.Run("in the client's error", func(t *testing.T) {
		m := bedrock.New(bedrock.Config{Region: "us-east-1", Credentials: madeUp(), Model: "m", HTTPClient: &http.Client{
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				return nil, errors.New("refused: " + r.Header.Get("X-Amz-Security-Token"))
			}),
		}})
		if _, err := m.Call(t.Context(), ask("Hello?")); err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), madeUpToken) {
			t.Errorf("%v", err)
		}
	})
}

func TestPhaseAndCommitSayHowFarItGot(t *testing.T) {
	hangUp := func(w http.ResponseWriter) { // without the end that Content-Length promised
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	begin := func(kind string, status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			hangUp(w)
		}
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
		{"in a failure's body", begin(jsonType, 429, `{"message":"Too many requests`), ask("Hello?"), llm.RateLimited, llm.PhaseHeaders, llm.CommitNone},
		{"in an answer", begin(jsonType, 200, `{"output"`), ask("Hello?"), llm.Interrupted, llm.PhaseBody, llm.CommitUnknown},
		{"before an answer", begin(jsonType, 200, ""), ask("Hello?"), llm.Interrupted, llm.PhaseBody, llm.CommitUnknown},
		{"before a stream", begin(frameType, 200, ""), streamed(&llm.Accumulator{}), llm.Interrupted, llm.PhaseStream, llm.CommitUnknown},
		{"in a stream", begin(frameType, 200, begun+piece("Hel")), streamed(&llm.Accumulator{}), llm.Interrupted, llm.PhaseStream, llm.Committed},
		{"in a stream before the text", begin(frameType, 200, begun), streamed(&llm.Accumulator{}), llm.Interrupted, llm.PhaseStream, llm.CommitUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := serve(t, c.h).Call(t.Context(), c.req)
			if e := llm.AsError(err); e.Class != c.class || e.Evidence.Phase != c.phase || e.Commit != c.commit {
				t.Errorf("%v: class %v, phase %v, commit %v; want %v, %v, %v", err, e.Class, e.Evidence.Phase, e.Commit, c.class, c.phase, c.commit)
			}
		})
	}
	t.Run("before the connection", func(t *testing.T) {
		m := bedrock.New(at(t, "http://127.0.0.1:1"))
		_, err := m.Call(t.Context(), ask("Hello?"))
		if e := llm.AsError(err); e.Class != llm.Unavailable || e.Evidence.Phase != llm.PhaseConnect || e.Commit != llm.CommitNone {
			t.Errorf("%v: class %v, phase %v, commit %v", err, e.Class, e.Evidence.Phase, e.Commit)
		}
		if strings.Contains(err.Error(), "operation error") || strings.Contains(err.Error(), "127.0.0.1:1/model") {
			t.Errorf("the SDK's envelope is in %v", err)
		}
	})
}

func TestAFailuresTextOutsideHTTPIsClassified(t *testing.T) {
	for text, class := range map[string]llm.Class{
		`http2: server sent GOAWAY and closed the connection; LastStreamID=795, ErrCode=ENHANCE_YOUR_CALM, debug=""`: llm.RateLimited,
		`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""`:            llm.Unavailable,
		`tls: failed to verify certificate: x509: certificate has expired`:                                           llm.Unsupported,
	} {
		m := bedrock.New(bedrock.Config{Region: "us-east-1", Model: "m", HTTPClient: &http.Client{
			Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New(text) }),
		}})
		if _, err := m.Call(t.Context(), ask("Hello?")); llm.ClassOf(err) != class || !strings.Contains(err.Error(), text) {
			t.Errorf("%v of class %v, want %v", err, llm.ClassOf(err), class)
		}
	}
}
