package llm_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// resilient is the one configuration under which the faults are survived, around two models.
func resilient(p pace, window middleware.CommitConfig, primary, fallback llm.Caller) *llm.Pipeline {
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{
		// A primary that recovers is to serve again within 30 s: the longest rest, and some time until a call comes along.
		Rest: p.of(15 * time.Second), Cap: p.of(20 * time.Second), Patience: p.of(5 * time.Second), ProbeLease: p.of(30 * time.Second),
	})
	perDeployment := llm.New(
		cooldowns.Stage(),
		middleware.Retry(middleware.RetryConfig{
			Max: 2, Base: p.of(time.Second), Cap: p.of(20 * time.Second), MaxWait: p.of(time.Minute),
		}),
		middleware.Commit(window),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{
			Total: p.of(20 * time.Second), FirstToken: p.of(8 * time.Second), Idle: p.of(8 * time.Second),
		}),
		middleware.Classify(middleware.ClassifyConfig{}),
	)
	has, price := llm.CanText|llm.CanStream|llm.CanPrefill, llm.Price{Input: 1, Output: 2}
	first := perDeployment.Then(&llm.Deployment{
		Name: "primary", Provider: "openai", Model: "big", Window: 8_000, Price: price, Has: has, Caller: primary,
	})
	second := perDeployment.Then(&llm.Deployment{
		Name: "fallback", Provider: "openai", Model: "small", Window: 128_000, Price: price, Has: has, Caller: fallback,
	})
	return llm.New(
		middleware.Telemetry(middleware.TelemetryConfig{Logger: slog.New(slog.DiscardHandler)}),
		middleware.Deadline(middleware.DeadlineConfig{Total: p.of(30 * time.Second)}),
		middleware.Interrupt(middleware.InterruptConfig{Continue: []llm.Caller{second}}),
	).Then(middleware.Fallback(middleware.FallbackConfig{}, first, second))
}

// heard is a call as its caller saw it.
type heard struct {
	text        string
	began, took time.Duration // of the scenario
	late        bool          // a delta came after the call returned
	resp        *llm.Response
	err         error
}

func (h heard) String() string {
	text := fmt.Sprintf("%q", h.text)
	if all := strings.Fields(h.text); numbered(all) {
		text = fmt.Sprintf("%d words of the primary, %d of the fallback", from(h.text, "primary"), from(h.text, "fallback"))
	}
	s := fmt.Sprintf("the caller heard %s from %v to %v", text, h.began.Round(time.Millisecond),
		(h.began + h.took).Round(time.Millisecond))
	if h.err != nil {
		return s + ", then: " + h.err.Error()
	}
	return s + fmt.Sprintf(", then the answer of %s, usage %+v", h.resp.Deployment, h.resp.Usage)
}

// rows is the call's account.
func (h heard) rows() []llm.Attempt {
	if h.err != nil {
		return llm.AsError(h.err).Attempts
	}
	return h.resp.Attempts
}

func (h heard) attempts(deployment string) (n int) {
	for _, a := range h.rows() {
		if a.Skipped == "" && a.Deployment == deployment {
			n++
		}
	}
	return n
}

// trial is a scenario while it runs.
type trial struct {
	t                 *testing.T
	fault             fault
	pace              pace
	began             time.Time
	primary, fallback *faulty
	chat              llm.Caller
}

func (r *trial) expect(ok bool, h heard, format string, args ...any) {
	r.t.Helper()
	if !ok {
		r.t.Errorf("%s: expected %s\n%v\n%v%v", r.fault.name, fmt.Sprintf(format, args...), h, r.primary, r.fallback)
	}
}

// call asks once.
func (r *trial) call(ctx context.Context) heard {
	h := heard{began: r.pace.since(r.began)}
	returned, late := false, false
	var text strings.Builder
	req := ask()
	req.Sink = func(d llm.Delta) error {
		late = late || returned
		text.WriteString(d.Text)
		return nil
	}
	h.resp, h.err = r.chat.Call(ctx, req)
	returned = true
	h.took, h.text, h.late = r.pace.since(r.began)-h.began, text.String(), late
	return h
}

// sane is what holds for every call, whatever happens to it.
func (r *trial) sane(h heard) {
	r.t.Helper()
	r.expect(!h.late, h, "no delta after the call returned")
	r.expect(h.took <= 30*time.Second+r.pace.slack, h, "an end within the 30 s of the call, it took %v", h.took)
	if h.err == nil {
		r.expect(h.text == h.resp.Text(), h, "the response to be what was handed out, it is %q", h.resp.Text())
		r.expect(isWhole(h.text), h, "a whole answer")
	} else if p := llm.AsError(h.err).Partial; p != nil {
		r.expect(h.text == p.Text(), h, "the partial answer to be what was handed out, it is %q", p.Text())
	}
}

// account checks that the call's account has what the providers saw of it, which was the only one.
func (r *trial) account(h heard, primary, fallback int) {
	r.t.Helper()
	p, f := len(r.primary.seen()), len(r.fallback.seen())
	r.expect(p == primary && f == fallback, h, "%d attempts on the primary and %d on the fallback", primary, fallback)
	r.expect(h.attempts("primary") == p && h.attempts("fallback") == f, h, "an account of %d and %d attempts, it has %+v", p, f, h.rows())
}

// served checks who gave the answer.
func (r *trial) served(h heard, by string) {
	r.t.Helper()
	r.expect(h.err == nil && h.resp != nil && h.resp.Deployment == by, h, "the answer of the %s", by)
}

// within checks a time of the scenario, exactly where time is fake.
func (r *trial) within(h heard, what string, got, least, most time.Duration) {
	r.t.Helper()
	r.expect(got >= least && got <= most+r.pace.slack, h, "%s between %v and %v, it was %v", what, least, most, got)
}

// isWhole reports whether text is an answer from its first word to its last, each once.
func isWhole(text string) bool {
	all := strings.Fields(text)
	return len(all) == words && numbered(all)
}

// numbered reports whether the words are those of an answer in order, each once.
func numbered(all []string) bool {
	for i, w := range all {
		if len(w) != 3 || w[1:] != fmt.Sprintf("%02d", i) {
			return false
		}
	}
	return true
}

// from is how many words of text are a provider's.
func from(text, name string) (n int) {
	for w := range strings.FieldsSeq(text) {
		if w[0] == name[0] {
			n++
		}
	}
	return n
}

// fault is a scenario.
type fault struct {
	name              string
	primary, fallback script        // nil: it is well
	noDone            bool          // the primary leaves out the last mark of its answers
	open              time.Duration // for which it keeps them open after their end
	window            middleware.CommitConfig
	calls             func(*trial) // nil: one call, which check looks at
	check             func(*trial, heard)
}

// run runs a scenario at a pace; over makes the model that a provider is.
func (f fault) run(t *testing.T, p pace, over func(*testing.T, *faulty) llm.Caller) {
	provider := func(name string, does script) *faulty {
		if does == nil {
			does = isWell
		}
		return &faulty{name: name, pace: p, script: does}
	}
	r := &trial{t: t, fault: f, pace: p, primary: provider("primary", f.primary), fallback: provider("fallback", f.fallback)}
	r.primary.noDone, r.primary.open = f.noDone, f.open
	primary, fallback := over(t, r.primary), over(t, r.fallback)
	r.chat = resilient(p, f.window, primary, fallback)
	r.began = time.Now()
	r.primary.began, r.fallback.began = r.began, r.began
	if f.calls != nil {
		f.calls(r)
		return
	}
	h := r.call(t.Context())
	r.sane(h)
	f.check(r, h)
}

// The faults are survived in real time, ten times as fast, over sockets.
func TestSixteenFaultsOverLoopback(t *testing.T) {
	p := pace{div: 10, slack: 5 * time.Minute} // how busy the machine is decides how late; fake time shows it to the moment
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.run(t, p, func(t *testing.T, provider *faulty) llm.Caller {
				provider.start(t, llmtest.NewProvider)
				s := httptest.NewServer(provider)
				t.Cleanup(s.Close)
				return model(s.URL, s.Client())
			})
		})
	}
}

// The same bytes over connections in memory, in full length and to the moment, where time is fake.
func TestSixteenFaultsInFakeTime(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f.run(t, pace{div: 1}, overMemory)
			})
		})
	}
}

func overMemory(t *testing.T, provider *faulty) llm.Caller {
	provider.start(t, llmtest.NewPipeProvider)
	return model("http://"+provider.name, llmtest.ServePipe(t, provider))
}
