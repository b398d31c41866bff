package policy_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy"
)

// Whatever goes wrong, what is said of it holds no key: not the errors of Load and of calls, nor Describe, nor the log.
func TestKeysAreNeverShown(t *testing.T) {
	echo := serve(t, "401")
	echo.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"no such key: %s","code":"invalid_api_key"}}`, r.Header.Get("Authorization"))
	})
	var log bytes.Buffer
	dir := write(t, map[string]string{
		"support.yaml": minimal, "routes.yml": routesAt(echo.URL, echo.URL), "backup.key": backupKey,
	})
	o := options()
	o.Telemetry = middleware.TelemetryConfig{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	s, err := policy.Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = call(t, s, "support-answer")
	if err == nil || log.Len() == 0 {
		t.Fatal("nothing went wrong, or nothing was logged")
	}
	chat, _ := s.Caller("support-answer")
	said := map[string]string{
		"the error": fmt.Sprintf("%v %+v %#v", err, err, llm.AsError(err)), "Describe": s.Describe("support-answer").String(),
		"the log": log.String(), "the Set": fmt.Sprintf("%v %+v", s.Describe("support-answer"), chat),
	}
	for where, text := range said {
		if strings.Contains(text, primaryKey) || strings.Contains(text, backupKey) {
			t.Errorf("%s shows a key", where)
		}
	}
}

func TestAProviderThatQuotesTheKeyIsNotBelieved(t *testing.T) {
	o := options()
	o.Providers = map[string]func(policy.Endpoint) (llm.Caller, error){"script": func(e policy.Endpoint) (llm.Caller, error) {
		if e.APIKey != primaryKey {
			t.Errorf("the key was not handed over")
		}
		if text := fmt.Sprintf("%v %+v %#v %s %q", e, e, e, e, &e); strings.Contains(text, primaryKey) {
			t.Errorf("an Endpoint prints its key")
		}
		return nil, fmt.Errorf("no account has the key %s", e.APIKey)
	}}
	path := filepath.Join(t.TempDir(), "p.yaml")
	put(t, path, "workflow: w\n---\nroutes:\n  a: {provider: script, model: m, key: {env: PRIMARY_KEY}}\n")
	_, err := policy.Load(path, o)
	if err == nil || strings.Contains(err.Error(), primaryKey) || !strings.Contains(err.Error(), "p.yaml:4:3: the route \"a\" cannot be used: no account has the key …") {
		t.Errorf("got %v", err)
	}
}

func TestAKeyIsOneLine(t *testing.T) {
	for key, good := range map[string]bool{" sk-1 \n": true, "": false, "\n": false, "a\nb": false, "a\x00b": false, strings.Repeat("k", 70_000): false} {
		dir := write(t, map[string]string{
			"p.yaml": "workflow: w\n---\nroutes:\n  a: {provider: script, model: m, key: {file: a.key}}\n", "a.key": key,
		})
		if _, err := policy.Load(dir, scripted(map[string]llm.Caller{"a": llmtest.Script(llmtest.Text("hi"))})); (err == nil) != good {
			t.Errorf("a key of %d bytes: %v", len(key), err)
		}
	}
}
