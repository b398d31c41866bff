package policy_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// minimal is the card of eight lines.
const minimal = `workflow: support-answer
max_total_attempts: 3
max_elapsed_ms: 9000
max_incremental_cost_usd: 0.02
replay_safe_until: first_visible_token
allowed_fallbacks: [{route: approved-support-backup, reasons: [provider_overload, pre-stream_timeout]}]
queue_after_ms: null
fail_closed_on: [auth, policy, unapproved_route, uncertain_side_effect]
`

// A provider is a server that speaks OpenAI's wire and answers by a script; after its end the last line repeats.
type provider struct {
	*httptest.Server
	mu     sync.Mutex
	script []string
	calls  int
	keys   []string
}

func serve(t *testing.T, script ...string) *provider {
	t.Helper()
	p := &provider{script: script}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	p.mu.Lock()
	line := p.script[min(p.calls, len(p.script)-1)]
	p.calls++
	p.keys = append(p.keys, r.Header.Get("Authorization"))
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fail := func(status int, code string) {
		w.Header().Set("Retry-After-Ms", "500")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"no: %s","type":%[1]q,"code":%[1]q}}`, code)
	}
	switch line {
	case "401":
		fail(401, "invalid_api_key")
	case "429 quota":
		fail(429, "insufficient_quota")
	case "429":
		fail(429, "rate_limit_exceeded")
	case "503":
		fail(503, "server_error")
	case "400":
		fail(400, "invalid_request_error")
	case "404":
		fail(404, "model_not_found")
	default:
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",`+
			`"content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`, line)
	}
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// routesAt is a section of the two routes that the minimal card needs.
func routesAt(primary, backup string) string {
	return fmt.Sprintf(`routes:
  support-primary:
    provider: openai
    model: gpt-4o-mini
    base_url: %s
    key: {env: PRIMARY_KEY}
    price: {input: 0.15, output: 0.60}
  approved-support-backup:
    provider: mistral
    model: mistral-small
    base_url: %s
    key: {file: backup.key}
    price: {input: 0.1, output: 0.3}
`, primary, backup)
}

// write puts files into a new directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, filepath.Join(dir, name), text)
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	primaryKey = "sk-primary-0123456789abcdef"
	backupKey  = "sk-backup-fedcba9876543210"
)

func options() policy.Options {
	return policy.Options{
		LookupEnv: func(name string) (string, bool) {
			if name == "PRIMARY_KEY" {
				return primaryKey, true
			}
			return "", false
		},
		Telemetry: middleware.TelemetryConfig{Logger: slog.New(slog.DiscardHandler)},
	}
}

// loopback is the minimal card in front of two servers.
func loopback(t *testing.T, primary, backup *provider) (*policy.Set, string) {
	t.Helper()
	dir := write(t, map[string]string{
		"support.yaml": minimal, "routes.yml": routesAt(primary.URL, backup.URL), "backup.key": backupKey + "\n",
	})
	s, err := policy.Load(dir, options())
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func hello() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("hello")}} }

func call(t *testing.T, s *policy.Set, workflow string) (*llm.Response, error) {
	t.Helper()
	c, err := s.Caller(workflow)
	if err != nil {
		t.Fatal(err)
	}
	return c.Call(t.Context(), hello())
}

func TestTheMinimalCardOverLoopback(t *testing.T) {
	for _, c := range []struct {
		name              string
		primary, backup   []string
		want              string // the answer
		class             llm.Class
		onPrimary, onBack int
	}{
		{name: "answers", primary: []string{"hi"}, backup: []string{"other"}, want: "hi", onPrimary: 1},
		{name: "503 once, repeated", primary: []string{"503", "hi"}, backup: []string{"other"}, want: "hi", onPrimary: 2},
		{name: "503, repeated, then the fallback", primary: []string{"503"}, backup: []string{"other"}, want: "other", onPrimary: 2, onBack: 1},
		{name: "503 everywhere stops at three attempts", primary: []string{"503"}, backup: []string{"503"}, class: llm.Unavailable,
			onPrimary: 2, onBack: 1},
		{name: "the quota is used up and the fallback is not approved for that", primary: []string{"429 quota"}, backup: []string{"other"},
			class: llm.Quota, onPrimary: 1},
		{name: "paced, repeated, and no fallback is approved for that", primary: []string{"429"}, backup: []string{"other"},
			class: llm.RateLimited, onPrimary: 3},
		{name: "a refused key fails closed", primary: []string{"401"}, backup: []string{"other"}, class: llm.Auth, onPrimary: 1},
		{name: "a malformed request fails closed", primary: []string{"400"}, backup: []string{"other"}, class: llm.Invalid, onPrimary: 1},
		{name: "an unknown model is not among the reasons", primary: []string{"404"}, backup: []string{"other"}, class: llm.NotFound, onPrimary: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			primary, backup := serve(t, c.primary...), serve(t, c.backup...)
			s, _ := loopback(t, primary, backup)
			resp, err := call(t, s, "support-answer")
			if err == nil && resp.Text() != c.want || err != nil && (c.want != "" || !errors.Is(err, c.class)) {
				t.Errorf("got %q, %v; want %q or %v", resp.Text(), err, c.want, c.class)
			}
			if primary.count() != c.onPrimary || backup.count() != c.onBack {
				t.Errorf("%d and %d calls; want %d and %d", primary.count(), backup.count(), c.onPrimary, c.onBack)
			}
			for _, key := range primary.keys {
				if key != "Bearer "+primaryKey {
					t.Error("the key of the environment was not sent")
				}
			}
			for _, key := range backup.keys {
				if key != "Bearer "+backupKey {
					t.Error("the key of the file was not sent")
				}
			}
		})
	}
}

// scripted are options with the provider "script", whose models are found by the name of the route.
func scripted(models map[string]llm.Caller) policy.Options {
	o := options()
	o.Providers = map[string]func(policy.Endpoint) (llm.Caller, error){
		"script": func(e policy.Endpoint) (llm.Caller, error) {
			if m := models[e.Route]; m != nil {
				return m, nil
			}
			return nil, fmt.Errorf("no model for %s", e.Route)
		},
	}
	return o
}

const scriptedRoutes = `routes:
  first: {provider: script, model: a, price: {free: true}}
  approved-support-backup: {provider: script, model: b, price: {free: true}}
`

func TestNoCallTakesLongerThanMaxElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := write(t, map[string]string{"a.yaml": minimal, "b.yaml": scriptedRoutes})
		hang := llmtest.Script(llmtest.Step{Hang: true})
		s, err := policy.Load(dir, scripted(map[string]llm.Caller{"first": hang, "approved-support-backup": hang}))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err = call(t, s, "support-answer")
		if took := time.Since(begin); err == nil || took > 9*time.Second || hang.Count() != 2 {
			t.Errorf("%v after %v and %d calls", err, took, hang.Count())
		}
	})
}

func TestACallWhoseWorkflowIsGoneFails(t *testing.T) {
	primary, backup := serve(t, "hi"), serve(t, "hi")
	s, dir := loopback(t, primary, backup)
	chat, err := s.Caller("support-answer")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "support.yaml"), strings.Replace(minimal, "support-answer", "another", 1))
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := chat.Call(t.Context(), hello()); !errors.Is(err, llm.Invalid) || !strings.Contains(err.Error(), "support-answer") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Caller("support-answer"); err == nil || !strings.Contains(err.Error(), "it has another") {
		t.Errorf("got %v", err)
	}
	if got := s.Workflows(); len(got) != 1 || got[0] != "another" {
		t.Errorf("got %v", got)
	}
}

func TestRoutesMayBeAListAndStandInSeveralFiles(t *testing.T) {
	m := llmtest.Script(llmtest.Text("hi"))
	dir := write(t, map[string]string{
		"1.yaml":      "routes:\n  - {name: b, provider: script, model: m}\n  - {name: a, provider: script, model: m}\n",
		"2.yml":       "# nothing\n",
		"3.yaml":      "workflow: w\n---\nworkflow: v\nprimary: c\n",
		"4.yaml":      "---\n---\nroutes:\n  c: {provider: script, model: m}\n...\n",
		".hidden.yml": "workflow: [",
		"notes.txt":   "workflow: [",
	})
	s, err := policy.Load(dir, scripted(map[string]llm.Caller{"a": m, "b": m, "c": m}))
	if err != nil {
		t.Fatal(err)
	}
	for workflow, want := range map[string]string{"w": "b", "v": "c"} {
		if resp, err := call(t, s, workflow); err != nil || resp.Deployment != want {
			t.Errorf("%s: %v, %v", workflow, resp.Deployment, err)
		}
	}
	if got := strings.Join(s.Workflows(), " "); got != "w v" {
		t.Errorf("got %s", got)
	}
}

func TestErrorsOfSeveralFilesAreInTheirOrder(t *testing.T) {
	dir := write(t, map[string]string{
		"1.yaml": "workflow: w\nprimary: x\nmax_tokens: 1\nmax_tokens: 2\n",
		"2.yaml": "routes:\n  a: {provider: openai}\n",
		"3.yaml": "workflow: v\nmax_tokens: no\nlong_context: a\n",
	})
	_, err := policy.Load(dir, options())
	all, _ := errors.AsType[policy.Errors](err)
	var places []string
	for _, e := range all {
		places = append(places, fmt.Sprintf("%s:%d:%d", filepath.Base(e.File), e.Line, e.Column))
	}
	if got := strings.Join(places, " "); got != "1.yaml:2:10 1.yaml:4:1 2.yaml:2:6 3.yaml:2:13 3.yaml:3:15" {
		t.Errorf("got %s\n%v", got, err)
	}
	if one, ok := errors.AsType[*policy.Error](err); !ok || one != all[0] {
		t.Errorf("the first is not found by errors.As: %v", one)
	}
}

func TestWhatIsNoPolicyIsNotRead(t *testing.T) {
	large := filepath.Join(write(t, map[string]string{"large.yaml": "# " + strings.Repeat("x", 1<<20)}), "large.yaml")
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "none.yaml"): "no such file", t.TempDir(): "0 files that end in .yaml or .yml",
		large: "more than 1048576 bytes",
	} {
		if _, err := policy.Load(path, options()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
