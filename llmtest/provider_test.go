package llmtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/llmtest"
)

// asks makes a call at a Provider.
func asks(t *testing.T, p *llmtest.Provider, model string) (*llm.Response, error) {
	t.Helper()
	m := openai.New(openai.Config{BaseURL: p.URL + "/v1", APIKey: "sk-made-up-key", Model: model, HTTPClient: p.Client()})
	return m.Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}})
}

// hears tells what a call hears, in a word.
func hears(t *testing.T, p *llmtest.Provider, model string) string {
	t.Helper()
	resp, err := asks(t, p, model)
	if err != nil {
		return llm.ClassOf(err).String()
	}
	return resp.Text()
}

// posts sends a body as it is.
func posts(t *testing.T, p *llmtest.Provider, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := p.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func fixed(d time.Duration) llmtest.Latency { return llmtest.Latency{Fixed: d} }

func TestAProviderGoesByFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.NewPipeProvider(t, llmtest.Turns(llmtest.Turn{
			Text: "one two three", Wait: fixed(time.Second), First: fixed(2 * time.Second), Gap: fixed(time.Minute),
		}))
		began := time.Now()
		var at []time.Duration
		m := openai.New(openai.Config{BaseURL: p.URL, APIKey: "k", Model: "m", HTTPClient: p.Client()})
		resp, err := m.Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("count")}, Sink: func(llm.Delta) error {
			at = append(at, time.Since(began))
			return nil
		}})
		want := []time.Duration{3 * time.Second, 63 * time.Second, 123 * time.Second}
		if err != nil || resp.Text() != "one two three" || !slices.Equal(at, want) {
			t.Errorf("%+v, %v, pieces at %v, want %v", resp, err, at, want)
		}
		p.Wait()
		if x := p.Exchanges()[0]; x.Took != 123*time.Second || x.Pieces != 3 || !x.Done || x.HungUp {
			t.Errorf("the log says %+v", x)
		}
	})
}

func TestTurnsAreDoneInOrderAndTheLastForEver(t *testing.T) {
	p := llmtest.NewProvider(t, llmtest.Turns(
		llmtest.Turn{Do: llmtest.DoOverloaded, Times: 2}, llmtest.Turn{Text: "once"}, llmtest.Turn{Do: llmtest.DoAuth}))
	for i, want := range []string{"overloaded", "overloaded", "once", "auth", "auth", "auth"} {
		if got := hears(t, p, "m"); got != want {
			t.Errorf("request %d: %s, want %s", i+1, got, want)
		}
	}
}

func TestARequestTakesTheFirstRouteWhoseConditionsItMeets(t *testing.T) {
	text := func(s string) []llmtest.Turn { return []llmtest.Turn{{Text: s}} }
	p := llmtest.NewProvider(t, llmtest.ProviderConfig{Routes: []llmtest.Route{
		{Header: map[string]string{"x-tenant": "acme"}, Turns: text("by header")},
		{Model: "gpt-4o", Turns: text("by model"), Name: "exact"},
		{Model: "gpt-*", Turns: text("by prefix")},
		{API: "anthropic", Turns: text("by api")},
		{Match: func(x llmtest.Exchange) bool { return strings.Contains(x.Body, "needle") }, Turns: text("by body")},
		{Model: "counted", Func: func(x llmtest.Exchange, n int) llmtest.Turn { return llmtest.Turn{Text: fmt.Sprint(x.Model, " ", n)} }},
	}})
	for _, c := range []struct{ path, body, tenant, want string }{
		{"/v1/chat/completions", `{"model":"gpt-4o"}`, "acme", "by header"},
		{"/v1/chat/completions", `{"model":"gpt-4o"}`, "other", "by model"},
		{"/v1/responses", `{"model":"gpt-5"}`, "", "by prefix"},
		{"/v1/messages", `{"model":"claude"}`, "", "by api"},
		{"/model/claude/converse", `{"x":"needle"}`, "", "by body"},
		{"/v1/chat/completions", `{"model":"counted"}`, "", "counted 1"},
		{"/v1/chat/completions", `{"model":"counted"}`, "", "counted 2"},
		{"/v1beta/models/gemini-x:generateContent", `{}`, "", `"ok"`},
	} {
		if _, body := posts(t, p, c.path, c.body, "X-Tenant", c.tenant); !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %s, want %s", c.path, c.body, body, c.want)
		}
	}
	if got := p.Exchanges()[1]; got.Route != "exact" || got.API != "chat" || got.Model != "gpt-4o" || got.Status != 200 {
		t.Errorf("the log says %+v", got)
	}
}

func TestAnOutageGoesBySchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.NewPipeProvider(t, llmtest.ProviderConfig{Routes: []llmtest.Route{{
			Turns: []llmtest.Turn{{Text: "first"}, {Text: "later"}},
			Outages: []llmtest.Outage{
				{From: 10 * time.Second, To: 20 * time.Second}, {From: time.Minute, Turn: llmtest.Turn{Do: llmtest.DoOverloaded}},
			},
		}}})
		last := time.Duration(0)
		for _, c := range []struct {
			at   time.Duration
			want string
		}{
			{9*time.Second + 999*time.Millisecond, "first"}, {10 * time.Second, "unavailable"}, {20*time.Second - 1, "unavailable"},
			{20 * time.Second, "later"}, {time.Minute, "overloaded"}, {time.Hour, "overloaded"},
		} {
			llmtest.Advance(c.at - last)
			last = c.at
			if got := hears(t, p, "m"); got != c.want {
				t.Errorf("at %v: %s, want %s", c.at, got, c.want)
			}
		}
	})
}

func TestAQuotaIsServedAndThenTurnedAwayUntilItsWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.NewPipeProvider(t, llmtest.ProviderConfig{Routes: []llmtest.Route{
			{Model: "claude", Quota: llmtest.Quota{Requests: 1, Per: time.Hour}},
			{Quota: llmtest.Quota{Requests: 2}},
		}})
		llmtest.Advance(7 * time.Second) // a window begins with its first request
		ask := func() (*http.Response, string) { return posts(t, p, "/v1/chat/completions", `{"model":"m"}`) }
		for left := 1; left >= 0; left-- {
			if resp, _ := ask(); resp.StatusCode != http.StatusOK || resp.Header.Get("X-Ratelimit-Remaining-Requests") != fmt.Sprint(left) ||
				resp.Header.Get("X-Ratelimit-Limit-Requests") != "2" {
				t.Errorf("with %d left: %d, %v", left, resp.StatusCode, resp.Header)
			}
			llmtest.Advance(10 * time.Second)
		}
		resp, body := ask()
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "40" || resp.Header.Get("X-Ratelimit-Reset-Requests") != "40s" ||
			!strings.Contains(body, "Limit 2") || !strings.Contains(body, "try again in 40s") {
			t.Errorf("beyond the quota: %d, %v, %s", resp.StatusCode, resp.Header, body)
		}
		if _, err := asks(t, p, "m"); !errors.Is(err, llm.RateLimited) || llm.AsError(err).RetryAfter != 40*time.Second {
			t.Errorf("beyond the quota: %v, wait %v", err, llm.AsError(err).RetryAfter)
		}
		llmtest.Advance(40 * time.Second)
		if got := hears(t, p, "m"); got != "ok" {
			t.Errorf("in the next window: %s", got)
		}
		_, _ = posts(t, p, "/v1/messages", `{"model":"claude"}`)
		resp, body = posts(t, p, "/v1/messages", `{"model":"claude"}`)
		reset := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Anthropic-Ratelimit-Requests-Reset") != reset || resp.Header.Get("Retry-After") != "3600" ||
			resp.Header.Get("Anthropic-Ratelimit-Requests-Remaining") != "0" {
			t.Errorf("Anthropic's: %d, %v, %s", resp.StatusCode, resp.Header, body)
		}
	})
}

func TestAQuotaOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.NewPipeProvider(t, llmtest.ProviderConfig{Routes: []llmtest.Route{{Model: "never"}, {
			Turns: []llmtest.Turn{{Usage: llm.Usage{Input: 30, Output: 10}}},
			Quota: llmtest.Quota{Tokens: 100, Per: 30 * time.Second},
		}}})
		for i, want := range []string{"ok", "ok", "rate_limited", "rate_limited"} {
			if got := hears(t, p, "m"); got != want {
				t.Errorf("request %d: %s, want %s", i+1, got, want)
			}
		}
		if _, err := asks(t, p, "m"); !strings.Contains(err.Error(), "tokens per 30s: Limit 100") || llm.AsError(err).RetryAfter != 30*time.Second {
			t.Errorf("%v, wait %v", err, llm.AsError(err).RetryAfter)
		}
		llmtest.Advance(30 * time.Second)
		if got := hears(t, p, "m"); got != "ok" {
			t.Errorf("in the next window: %s", got)
		}
	})
	p := llmtest.NewProvider(t, llmtest.ProviderConfig{Routes: []llmtest.Route{{Quota: llmtest.Quota{Requests: 1, Then: llmtest.DoQuota}}}})
	if first, second := hears(t, p, "m"), hears(t, p, "m"); first != "ok" || second != "quota" {
		t.Errorf("%s, then %s", first, second)
	}
}

// latencies are those of n requests.
func latencies(t *testing.T, l llmtest.Latency, seed uint64, n int) (all []float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.NewPipeProvider(t, llmtest.ProviderConfig{Seed: seed, Routes: []llmtest.Route{{Wait: l}}})
		for range n {
			hears(t, p, "m")
		}
		p.Wait()
		for _, x := range p.Exchanges() {
			all = append(all, x.Took.Seconds())
		}
	})
	return all
}

func TestLatencyIsDrawnFromItsDistribution(t *testing.T) {
	const n = 400
	even := latencies(t, llmtest.Latency{Fixed: time.Second, Min: time.Second, Max: 3 * time.Second}, 1, n)
	slices.Sort(even)
	if even[0] < 2 || even[n-1] > 4 || math.Abs(even[n/2]-3) > 0.2 || math.Abs(even[n/4]-2.5) > 0.2 {
		t.Errorf("even: from %v to %v, quartile %v, median %v", even[0], even[n-1], even[n/4], even[n/2])
	}
	logNormal := latencies(t, llmtest.Latency{Median: 2 * time.Second, Sigma: 0.5, Max: 5 * time.Second}, 1, n)
	slices.Sort(logNormal)
	within := 0
	for _, s := range logNormal {
		if s > 2*math.Exp(-0.5) && s < 2*math.Exp(0.5) {
			within++
		}
	}
	if math.Abs(logNormal[n/2]-2) > 0.2 || math.Abs(float64(within)/n-0.683) > 0.07 || logNormal[n-1] > 5 {
		t.Errorf("log-normal: median %v, %d of %d within a factor of e^0.5, longest %v", logNormal[n/2], within, n, logNormal[n-1])
	}
}

func TestASeedRepeatsItsDraws(t *testing.T) {
	draw := func(seed uint64) string {
		p := llmtest.NewProvider(t, llmtest.ProviderConfig{Seed: seed, Routes: []llmtest.Route{{Turns: []llmtest.Turn{{OneOf: []llmtest.Turn{
			{Name: "a", Weight: 3}, {Name: "b"}, {Do: llmtest.DoOverloaded, Name: "c"},
		}}}}}})
		for range 200 {
			hears(t, p, "m")
		}
		p.Wait()
		var b strings.Builder
		for _, x := range p.Exchanges() {
			b.WriteString(x.Did[:1])
		}
		return b.String()
	}
	first := draw(7)
	if again, other := draw(7), draw(8); first != again || first == other {
		t.Errorf("seed 7: %s, again %s, seed 8 %s", first, again, other)
	}
	if n := strings.Count(first, "a"); n < 100 || n > 140 { // 120 are due; the seed is fixed
		t.Errorf("%d of 200 were the turn of three fifths", n)
	}
}

func TestTheLogTellsWhoHungUpAndWhen(t *testing.T) {
	for _, c := range []struct {
		turn   llmtest.Turn
		hungUp bool
	}{
		{llmtest.Turn{Do: llmtest.DoSilence}, true},
		{llmtest.Turn{Do: llmtest.DoStall, Text: "one two three", At: 2}, true},
		{llmtest.Turn{Text: "one two three", Gap: fixed(time.Minute)}, true},
		{llmtest.Turn{Wait: fixed(time.Minute)}, true},
		{llmtest.Turn{Do: llmtest.DoSilence, Hold: time.Second}, false},
		{llmtest.Turn{Do: llmtest.DoStall, Text: "one two three", At: 2, Hold: time.Second}, false},
		{llmtest.Turn{Do: llmtest.DoReset}, false},
		{llmtest.Turn{Text: "one two three"}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := llmtest.NewPipeProvider(t, llmtest.Turns(c.turn))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			m := openai.New(openai.Config{BaseURL: p.URL, APIKey: "k", Model: "m", HTTPClient: p.Client()})
			_, err := m.Call(ctx, &llm.Request{Messages: []llm.Message{llm.User("hi")}, Sink: func(llm.Delta) error { return nil }})
			p.Wait()
			x := p.Exchanges()[0]
			if c.hungUp != x.HungUp || c.hungUp && (err == nil || x.HungUpAfter != 5*time.Second || x.Took != 5*time.Second) {
				t.Errorf("%s: the call ended in %v, the log says %+v", x.Did, err, x)
			}
		})
	}
}

func TestConnectionsAndConcurrencyAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.NewPipeProvider(t, llmtest.Turns(llmtest.Turn{Wait: fixed(time.Second)}))
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { hears(t, p, "m") })
		}
		llmtest.Advance(500 * time.Millisecond)
		if now, most := p.Concurrent(); now != 5 || most != 5 {
			t.Errorf("%d requests under way, %d at most", now, most)
		}
		if open, most := p.Connections(); open != 5 || most != 5 {
			t.Errorf("%d connections open, %d at most", open, most)
		}
		wg.Wait()
		p.Wait()
		if now, most := p.Concurrent(); now != 0 || most != 5 {
			t.Errorf("at the end %d under way, %d at most", now, most)
		}
		hears(t, p, "m")
		p.Close()
		if open, most := p.Connections(); open != 0 || most != 5 {
			t.Errorf("closed: %d connections open, %d at most", open, most)
		}
		var seen []int
		for _, x := range p.Exchanges() {
			seen = append(seen, x.Concurrent)
		}
		slices.Sort(seen)
		if !slices.Equal(seen, []int{1, 1, 2, 3, 4, 5}) {
			t.Errorf("the log says %v were under way", seen)
		}
	})
}

func TestKeysAreNotLogged(t *testing.T) {
	p := llmtest.NewProvider(t, llmtest.ProviderConfig{})
	secret := "made-up-" + "secret"
	_, _ = posts(t, p, "/v1beta/models/m:generateContent?alt=sse&key="+secret, `{}`, "Authorization", "Bearer "+secret, "X-Api-Key", secret,
		"Api-Key", secret, "X-Goog-Api-Key", secret, "X-Amz-Security-Token", secret, "Cookie", "session="+secret, "X-Kept", "kept")
	p.Wait()
	x := p.Exchanges()[0]
	if all := fmt.Sprintf("%+v", x); strings.Contains(all, secret) || x.Header.Get("X-Kept") != "kept" || !strings.Contains(x.Path, "alt=sse") {
		t.Error(all)
	}
}

func TestCloseEndsWhatHangs(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	came := make(chan struct{})
	p, err := llmtest.StartProvider("127.0.0.1:0", llmtest.ProviderConfig{Routes: []llmtest.Route{{
		Func: func(llmtest.Exchange, int) llmtest.Turn {
			close(came)
			return llmtest.Turn{Do: llmtest.DoSilence}
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan error)
	go func() {
		_, err := asks(t, p, "m")
		heard <- err
	}()
	<-came
	p.Close()
	if err := <-heard; !errors.Is(err, llm.Unavailable) {
		t.Errorf("the call ended in %v", err)
	}
	if x := p.Exchanges()[0]; x.HungUp || !x.Done {
		t.Errorf("the log says %+v", x)
	}
	if _, err := asks(t, p, "m"); !errors.Is(err, llm.Unavailable) {
		t.Errorf("after its end: %v", err)
	}
	p.Close()
}

func TestManyRequestsAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var all []llmtest.Turn
	for _, a := range llmtest.Acts() {
		all = append(all, llmtest.Turn{Do: a, At: 1, Text: "one two three", Hold: time.Millisecond})
	}
	logged := 0
	p, err := llmtest.StartProvider("127.0.0.1:0", llmtest.ProviderConfig{
		Routes: []llmtest.Route{{Turns: []llmtest.Turn{{OneOf: all}}}}, Log: func(llmtest.Exchange) { logged++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 40 {
				hears(t, p, "m")
				p.Exchanges()
			}
		})
	}
	wg.Wait()
	p.Close()
	if logged != 320 || p.Count() != 320 {
		t.Errorf("%d exchanges were told, %d logged, of 320", logged, p.Count())
	}
	if _, most := p.Concurrent(); most > 8 {
		t.Errorf("%d at once", most)
	}
	if open, _ := p.Connections(); open != 0 {
		t.Errorf("%d connections are open", open)
	}
}
