package anthropic_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wiretest"
)

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
		f := wiretest.Load(t, filepath.Join("testdata", "evidence", name))
		f.Body = strings.TrimSuffix(f.Body, "\n")
		for how, req := range map[string]*llm.Request{"whole": wiretest.Ask("Hello?"), "streamed": wiretest.Streamed(&llm.Accumulator{})} {
			t.Run(name+" "+how, func(t *testing.T) {
				resp, err := serve(t, f.ServeHTTP).Call(t.Context(), req)
				e := llm.AsError(err)
				got := want{e.Class, e.Evidence.Type, e.RetryAfter, e.CoolUntil, e.Advice, e.Commit, e.RequestID}
				if resp != nil || got != w {
					t.Errorf("%v:\n got %+v (rule %s)\nwant %+v", err, got, e.Rule, w)
				}
				if e.Evidence.Status != f.Status || e.Provider != "anthropic" || e.Model != "claude-test" {
					t.Errorf("status %d, provider %q, model %q", e.Evidence.Status, e.Provider, e.Model)
				}
				for h := range f.Header {
					if e.Evidence.Header.Get(h) != f.Header.Get(h) {
						t.Errorf("%s is %q, was sent as %q", h, e.Evidence.Header.Get(h), f.Header.Get(h))
					}
				}
				if sent := strings.ReplaceAll(f.Body, madeUp, "[redacted]"); e.Evidence.Body != sent {
					t.Errorf("the body is %q, was sent as %q", e.Evidence.Body, sent)
				}
			})
		}
	}
}
