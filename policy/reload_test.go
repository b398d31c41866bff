package policy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/policy"
)

// A live is a policy in one file that a test changes.
type live struct {
	*policy.Set
	t    *testing.T
	path string
}

func goLive(t *testing.T, o policy.Options, text string) *live {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	put(t, path, text)
	s, err := policy.Load(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return &live{s, t, path}
}

// becomes writes the file anew and reloads it.
func (l *live) becomes(text string) {
	l.t.Helper()
	put(l.t, l.path, text)
	if err := l.Reload(); err != nil {
		l.t.Fatal(err)
	}
}

const oneRoute = `workflow: w
retry: {max: 0}
cooldown: {patience_ms: 1}
---
routes:
  a: {provider: script, model: one, quota: pool}
`

// unavailable is a failure that begins a rest.
func unavailable() llmtest.Step {
	return llmtest.Fail(&llm.Error{Class: llm.Unavailable, RetryAfter: time.Minute})
}

func TestReloadKeepsTheRestOfARouteThatIsUnchanged(t *testing.T) {
	a := llmtest.Script(unavailable(), llmtest.Text("hi"))
	l := goLive(t, scripted(map[string]llm.Caller{"a": a, "b": a}), oneRoute)
	if _, err := call(t, l.Set, "w"); !errors.Is(err, llm.Unavailable) {
		t.Fatal(err)
	}
	for _, same := range []string{
		oneRoute,
		"# a comment moves every line\n\n" + oneRoute,
		strings.Replace(oneRoute, "quota: pool", "quota: pool, approvals: [{workflow: w, reasons: [quota], by: ada, until: 2099-01-01}]", 1),
		strings.Replace(oneRoute, "workflow: w", "workflow: w\nmax_tokens: 1000000", 1),
		strings.Replace(oneRoute, "workflow: w", "workflow: w\nallowed_fallbacks: [{route: b, reasons: [quota]}]", 1) +
			"  b: {provider: script, model: two}\n",
	} {
		l.becomes(same)
		if _, err := call(t, l.Set, "w"); !errors.Is(err, llm.Cooling) {
			t.Errorf("after\n%s\nthe route no longer rests: %v", same, err)
		}
	}
	l.becomes(strings.Replace(oneRoute, "model: one", "model: two", 1))
	if resp, err := call(t, l.Set, "w"); err != nil || resp.Text() != "hi" {
		t.Errorf("the route has changed and still rests: %v", err)
	}
}

func TestReloadEndsASharedRestOnlyWithAllWhoShareIt(t *testing.T) {
	const shared = oneRoute + "  b: {provider: script, model: one, quota: pool}\n---\nworkflow: v\nretry: {max: 0}\ncooldown: {patience_ms: 1}\nprimary: b\n"
	paced := llmtest.Fail(&llm.Error{Class: llm.RateLimited, RetryAfter: time.Minute})
	a, b := llmtest.Script(paced, llmtest.Text("hi")), llmtest.Script(llmtest.Text("hi"))
	l := goLive(t, scripted(map[string]llm.Caller{"a": a, "b": b}), shared)
	if _, err := call(t, l.Set, "w"); !errors.Is(err, llm.RateLimited) {
		t.Fatal(err)
	}
	if _, err := call(t, l.Set, "v"); !errors.Is(err, llm.Cooling) {
		t.Fatalf("b shares the quota, and two workflows of the same settings share what rests: %v", err)
	}
	l.becomes(strings.Replace(shared, "a: {provider: script, model: one", "a: {provider: script, model: two", 1))
	if _, err := call(t, l.Set, "v"); !errors.Is(err, llm.Cooling) {
		t.Errorf("b is unchanged and no longer rests: %v", err)
	}
	l.becomes(strings.ReplaceAll(shared, "model: one", "model: three"))
	if _, err := call(t, l.Set, "v"); err != nil {
		t.Errorf("both are new and the quota still rests: %v", err)
	}
}

func TestReloadKeepsRetryBudgetsAndLastGoodAnswers(t *testing.T) {
	const card = `workflow: w
retry: {base_ms: 1, cap_ms: 1}
cooldown: {rest_ms: 1, cap_ms: 1}
degrade: {last_good: {entries: 7}}
---
routes:
  a: {provider: script, model: one}
`
	fail := llmtest.Fail(llm.Unavailable)
	a := llmtest.Script(llmtest.Text("good"), fail, fail, fail, fail, fail, fail, fail, fail, fail)
	l := goLive(t, scripted(map[string]llm.Caller{"a": a}), card)
	ask := func(want bool) {
		t.Helper()
		resp, err := call(t, l.Set, "w")
		if err != nil || resp.Text() != "good" || resp.Degraded != want {
			t.Fatalf("got %+v, %v", resp, err)
		}
	}
	ask(false)
	ask(true)
	before := l.Describe("w").String()
	if !strings.Contains(before, "112 of 140 tokens") || !strings.Contains(before, "1 of 7 answers") {
		t.Fatalf("no retry was paid for, or no answer kept:\n%s", before)
	}
	l.becomes(strings.Replace(card, "workflow: w", "workflow: w\nmax_tokens: 1000000", 1))
	if after := l.Describe("w").String(); !strings.Contains(after, "112 of 140 tokens") || !strings.Contains(after, "1 of 7 answers") {
		t.Errorf("what the workflow had learned is gone:\n%s", after)
	}
	l.becomes(strings.Replace(card, "model: one", "model: two", 1))
	if after := l.Describe("w").String(); !strings.Contains(after, "140 of 140 tokens") || !strings.Contains(after, "1 of 7 answers") {
		t.Errorf("a route that has changed begins afresh, and answers are the workflow's:\n%s", after)
	}
}

func TestAWorkflowThatIsUnchangedKeepsItsOnion(t *testing.T) {
	const card = "workflow: w\nretry: {max: 0}\nallowed_fallbacks: [{route: b, reasons: [unusable_output]}]" + twoRoutes
	a, b := llmtest.Script(llmtest.Fail(llm.BadOutput)), llmtest.Script(llmtest.Fail(llm.BadOutput))
	l := goLive(t, scripted(map[string]llm.Caller{"a": a, "b": b}), card)
	moves := func(card string) int { // until what b has for moves in vain is used up
		l.becomes(card)
		before := b.Count()
		for range 15 {
			_, _ = call(t, l.Set, "w")
		}
		return b.Count() - before
	}
	if first, again := moves(card), moves("# moved\n"+card); first != 10 || again != 0 {
		t.Errorf("%d moves, and %d after a reload that changed nothing", first, again)
	}
	if fresh := moves(card + "---\nworkflow: v\n"); fresh != 0 {
		t.Errorf("%d moves after another workflow came", fresh)
	}
}

func TestABadFileIsRefusedAndTheOldOneGoesOn(t *testing.T) {
	a := llmtest.Script(llmtest.Text("hi"))
	l := goLive(t, scripted(map[string]llm.Caller{"a": a}), oneRoute)
	if _, err := call(t, l.Set, "w"); err != nil { // what is learned is shown
		t.Fatal(err)
	}
	before := l.Describe("w").String()
	for _, bad := range []string{"workflow: [", "workflow: w\nmax_tokens: many\n", strings.Replace(oneRoute, "script", "nobody", 1), ""} {
		put(t, l.path, bad)
		err := l.Reload()
		if es, ok := errors.AsType[policy.Errors](err); !ok || es[0].File != l.path {
			t.Errorf("%q: got %v", bad, err)
		}
		if resp, err := call(t, l.Set, "w"); err != nil || resp.Text() != "hi" {
			t.Errorf("%q: the old policy is gone: %v", bad, err)
		}
	}
	if err := os.Remove(l.path); err != nil {
		t.Fatal(err)
	}
	if err := l.Reload(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if l.Describe("w").String() != before {
		t.Error("the onion has changed")
	}
}

func TestACallUnderWayEndsOnTheOnionItBeganWith(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	old := llmtest.Script(llmtest.Step{Func: func(context.Context, *llm.Request) (*llm.Response, error) {
		close(begun)
		<-goOn
		return nil, &llm.Error{Class: llm.Quota}
	}})
	l := goLive(t, scripted(map[string]llm.Caller{"a": old, "b": llmtest.Script(llmtest.Text("from b"))}), oneRoute)
	done := make(chan error)
	go func() {
		_, err := call(t, l.Set, "w")
		done <- err
	}()
	<-begun
	l.becomes(strings.Replace(oneRoute, "workflow: w", "workflow: w\nallowed_fallbacks: [{route: b, reasons: [quota]}]", 1) +
		"  b: {provider: script, model: two}\n")
	close(goOn)
	if err := <-done; !errors.Is(err, llm.Quota) {
		t.Errorf("the call that had begun moved to a route of the new policy: %v", err)
	}
}

func TestKeysAreReadAgain(t *testing.T) {
	primary, backup := serve(t, "hi"), serve(t, "hi")
	s, dir := loopback(t, primary, backup)
	put(t, filepath.Join(dir, "support.yaml"), "workflow: support-answer\nprimary: approved-support-backup\n")
	for _, key := range []string{"first-key", "second-key"} {
		put(t, filepath.Join(dir, "backup.key"), key)
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		if _, err := call(t, s, "support-answer"); err != nil {
			t.Fatal(err)
		}
		if got := backup.keys[len(backup.keys)-1]; got != "Bearer "+key {
			t.Errorf("the key of before was sent after the file had changed")
		}
	}
}

func TestReloadUnderLoad(t *testing.T) {
	answer := func(text string) llm.Caller {
		return llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
			return &llm.Response{Parts: []llm.Part{llm.Text(text)}, Stop: llm.StopEnd}, nil
		})
	}
	l := goLive(t, scripted(map[string]llm.Caller{"a": answer("a"), "b": answer("b")}), oneRoute)
	chat, err := l.Caller("w")
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				resp, err := chat.Call(t.Context(), hello())
				if err != nil || resp.Text() != resp.Deployment {
					t.Errorf("got %+v, %v", resp, err)
					return
				}
				_ = l.Describe("w").String()
			}
		})
	}
	for i := range 60 {
		text := oneRoute
		switch i % 4 {
		case 1:
			text = strings.ReplaceAll(oneRoute, "a: {", "b: {")
		case 2:
			text = strings.Replace(oneRoute, "workflow: w", fmt.Sprintf("workflow: w\nmax_tokens: %d", 100_000+i), 1)
		case 3:
			put(t, l.path, "workflow: [")
			if err := l.Reload(); err == nil {
				t.Error("a bad file was taken")
			}
			continue
		}
		l.becomes(text)
	}
	stop.Store(true)
	wg.Wait()
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := write(t, map[string]string{"p.yaml": oneRoute, "a.key": "one"})
		path, keyed := filepath.Join(dir, "p.yaml"), strings.Replace(oneRoute, "model: one", "model: one, key: {file: a.key}", 1)
		put(t, path, keyed)
		var keys []string
		o := options()
		o.Providers = map[string]func(policy.Endpoint) (llm.Caller, error){"script": func(e policy.Endpoint) (llm.Caller, error) {
			keys = append(keys, e.APIKey)
			return llmtest.Script(llmtest.Text("hi")), nil
		}}
		s, err := policy.Load(path, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		var mu sync.Mutex
		var told []error
		ended := make(chan error)
		go func() {
			ended <- s.Watch(ctx, time.Second, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, err)
			})
		}()
		after := func(what string, n int, bad bool) {
			t.Helper()
			llmtest.Advance(3 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if len(told) != n || n > 0 && (told[n-1] != nil) != bad {
				t.Fatalf("%s: told %v", what, told)
			}
		}
		after("nothing has changed", 0, false)
		put(t, path, keyed+"# more\n")
		after("other contents", 1, false)
		put(t, path, "workflow: [")
		after("a bad file is told of once", 2, true)
		put(t, filepath.Join(dir, "a.key"), "two")
		put(t, path, keyed)
		after("a good one again, and another key", 3, false)
		put(t, filepath.Join(dir, "a.key"), "three")
		after("another key alone", 4, false)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		after("no file", 5, true)
		put(t, path, keyed)
		after("the file is back", 6, false)
		if got := strings.Join(keys, " "); got != "one two three" {
			t.Errorf("made with the keys %s", got)
		}
		over := errors.New("over")
		cancel(over)
		if err := <-ended; !errors.Is(err, over) {
			t.Errorf("got %v", err)
		}
	})
}
