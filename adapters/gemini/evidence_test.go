package gemini_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

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
				f := wiretest.Load(t, filepath.Join("testdata", "failures", name+".http"))
				var calls atomic.Int32
				m := serve(t, func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					f.ServeHTTP(w, r)
				}, func(c *gemini.Config) {
					if want.vertex {
						c.Project = "my-project"
					}
				})
				req := wiretest.Ask("hi")
				if streamed {
					req.Sink = func(d llm.Delta) error { t.Errorf("a delta came: %+v", d); return nil }
				}
				resp, err := m.Call(t.Context(), req)
				e := wiretest.Failure(t, resp, err)
				ev := e.Evidence
				if e.Class != want.class || e.RetryAfter != want.wait || e.CoolUntil || e.Commit != want.commit {
					t.Errorf("%v: class %v (%s), wait %v, until %v, commit %v; want %+v", e, e.Class, e.Rule, e.RetryAfter, e.CoolUntil, e.Commit, want)
				}
				if _, word, ok := strings.Cut(f.Body, `"status":`); ok && ev.Type != strings.Split(word, `"`)[1] || ok && ev.Message == "" {
					t.Errorf("type %q, message %q", ev.Type, ev.Message)
				}
				if body := strings.ReplaceAll(f.Body, madeUp, "[redacted]"); ev.Body != body {
					t.Errorf("body %q, want %q", ev.Body, body)
				}
				if ev.Status != f.Status || ev.Header.Get("Content-Type") != f.Header.Get("Content-Type") || ev.Header.Get("Retry-After") != f.Header.Get("Retry-After") {
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
				if strings.Contains(f.Body, `"usageMetadata"`) != (e.Usage.Input == 9) {
					t.Errorf("usage %+v", e.Usage)
				}
				if n := calls.Load(); n != 1 {
					t.Errorf("%d requests for one call, want 1", n)
				}
			})
		}
	}
}
