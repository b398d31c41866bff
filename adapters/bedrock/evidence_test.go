package bedrock_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

// load reads a fixture, with the made-up credentials in their places.
func load(t *testing.T, name string) wiretest.Fixture {
	t.Helper()
	f := wiretest.Load(t, filepath.Join("testdata", "evidence", name))
	f.Body = strings.TrimSuffix(strings.NewReplacer("SESSIONTOKEN", madeUpToken, "ACCESSKEYID", madeUpID).Replace(f.Body), "\n")
	return f
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
		for how, req := range map[string]*llm.Request{"whole": wiretest.Ask("Hello?"), "streamed": wiretest.Streamed(&llm.Accumulator{})} {
			t.Run(name+" "+how, func(t *testing.T) {
				resp, err := serve(t, f.ServeHTTP).Call(t.Context(), req)
				e := llm.AsError(err)
				got := want{e.Class, e.Evidence.Code, e.RetryAfter, e.Commit, e.RequestID}
				if w.code == "" {
					got.code = ""
				}
				if resp != nil || got != w {
					t.Errorf("%v:\n got %+v (rule %s)\nwant %+v", err, got, e.Rule, w)
				}
				if e.Evidence.Status != f.Status || e.Provider != "bedrock" || e.Model != "test.model-v1:0" {
					t.Errorf("status %d, provider %q, model %q", e.Evidence.Status, e.Provider, e.Model)
				}
				for h := range f.Header {
					if e.Evidence.Header.Get(h) != f.Header.Get(h) {
						t.Errorf("%s is %q, was sent as %q", h, e.Evidence.Header.Get(h), f.Header.Get(h))
					}
				}
				clean := strings.NewReplacer(madeUpToken, "[redacted]", madeUpID, "[redacted]").Replace(f.Body)
				if e.Evidence.Body != clean {
					t.Errorf("the body is %q, was sent as %q", e.Evidence.Body, f.Body)
				}
			})
		}
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
		{"in a body", wiretest.Says(403, wiretest.JSON, `{"message":"bad signature of `+all+`"}`)},
		{"in a header", wiretest.Says(500, "text/plain", "no", "X-Debug", "key="+all)},
		{"in a stream", wiretest.Says(200, frameType, begun+exception("internalServerException", `{"message":"`+all+` failed"}`))},
		{"in a page", wiretest.Says(200, "text/html", "<p>"+all+"</p>")},
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
				_, err := m.Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
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
			Transport: wiretest.RoundTripper(func(r *http.Request) (*http.Response, error) {
				return nil, errors.New("refused: " + r.Header.Get("X-Amz-Security-Token"))
			}),
		}})
		if _, err := m.Call(t.Context(), wiretest.Ask("Hello?")); err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), madeUpToken) {
			t.Errorf("%v", err)
		}
	})
}

func TestTheSDKsEnvelopeStaysOut(t *testing.T) {
	resp, err := bedrock.New(at(t, "http://127.0.0.1:1")).Call(t.Context(), wiretest.Ask("Hello?"))
	e := wiretest.Failure(t, resp, err)
	if strings.Contains(e.Error(), "operation error") || strings.Contains(e.Error(), "127.0.0.1:1/model") {
		t.Errorf("the SDK's envelope is in %v", e)
	}
}
