package llmtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

// PromptConfig sets [EvaluatePrompt].
type PromptConfig struct {
	// System is the prompt, filled in as deployments get it. It must be set.
	System string
	// Chain is the onion whose deployments are tried, each alone and without its stages. nil: none beside Deployments.
	Chain llm.Caller
	// Deployments are tried beside those of Chain. One that is there twice is tried once; two of the same name are an error. nil:
	// those of Chain.
	Deployments []*llm.Deployment
	// Fixtures are what the prompt is tried on. There must be one.
	Fixtures []Fixture
	// Samples is how often each deployment is asked each fixture. 0: 1.
	Samples int
	// Floor is the least share of answers that have to be as wanted, of each deployment. 0: 1, which is all. To let any score
	// pass, set it below 0.
	Floor float64
	// Overall is the same of all deployments together. 0: as Floor.
	Overall float64
	// Parallel is how many calls are made at a time of one deployment, and Width of how many deployments at a time. 0: 1, in
	// the order of Fixtures, and 4.
	Parallel, Width int
	// Timeout is the longest that an answer may take: its context ends then, and an answer that comes after all is too late.
	// 0: 1 min.
	Timeout time.Duration
	// Allow lists the rules of [LintPrompt] that the prompt may break: "model-name" everywhere, "model-name: Claude Monet" only
	// where this text, as it is in the prompt, holds what was found. nil: none.
	Allow []string
	// ShowAnswers shows the answers that failed, up to 500 bytes of each. false: only what was wrong with them.
	ShowAnswers bool
}

// A Fixture is a question and what is wanted of its answer.
type Fixture struct {
	// Name is how reports know it. It must be set.
	Name string
	// Ask is what the user says. "": Request says it.
	Ask string
	// Request has tools, a format, limits or a conversation that the question comes after. Its System is replaced. The zero
	// value: Ask alone.
	Request llm.Request
	// Wants is what holds of the answer.
	Wants Wants
}

func (f *Fixture) request(system string) *llm.Request {
	r := f.Request.Detach()
	r.System, r.Sink = system, nil
	if f.Ask != "" {
		r.Messages = append(slices.Clip(r.Messages), llm.User(f.Ask))
	}
	return r
}

// EvaluatePrompt tries one portable system prompt on every deployment that may get it: each is asked each fixture, and its
// answers are held against what is wanted. The table of scores goes into the log of the test, which fails with a sentence for
// each deployment below Floor, for all of them below Overall, and for each finding of [LintPrompt]:
//
//	llmtest.EvaluatePrompt(t, llmtest.PromptConfig{System: prompt, Chain: chat, Fixtures: []llmtest.Fixture{
//		{Name: "password", Ask: "How do I reset it?", Wants: llmtest.Wants{Mention: []string{"Settings"}, Language: "en"}},
//	}})
//
// Deployments are called without the stages around them, so that each is seen as it is: a call that fails counts as a failure
// of its fixture, with its class, and stops nothing. It works with scripted models and with real ones, inside and outside of
// testing/synctest. What it reports quotes no answer, unless ShowAnswers is set.
//
// It ends the test on a configuration that tries nothing.
func EvaluatePrompt(t testing.TB, cfg PromptConfig) *PromptReport {
	t.Helper()
	deployments := cfg.deployments()
	if err := cfg.check(deployments); err != nil {
		t.Fatalf("llmtest: EvaluatePrompt: %v", err)
		return &PromptReport{}
	}
	r := &PromptReport{floor: cmp.Or(cfg.Floor, 1), shows: cfg.ShowAnswers, System: cfg.System}
	r.overall = cmp.Or(cfg.Overall, r.floor)
	for _, f := range LintPrompt(cfg.System) {
		if !f.allowed(cfg.Allow, cfg.System) {
			r.Lint = append(r.Lint, f)
		}
	}
	r.Scores = make([]PromptScore, len(deployments))
	limited(cmp.Or(cfg.Width, 4), len(deployments), func(i int) { r.Scores[i] = cfg.score(t.Context(), deployments[i]) })
	t.Logf("\n%s", r)
	for _, problem := range r.Problems() {
		t.Errorf("%s", problem)
	}
	return r
}

func (c *PromptConfig) deployments() (list []*llm.Deployment) {
	all := slices.Clone(c.Deployments)
	if c.Chain != nil {
		all = slices.Concat(slices.Collect(llm.Describe(c.Chain).Deployments()), all)
	}
	for _, d := range all {
		if !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return list
}

func (c *PromptConfig) check(deployments []*llm.Deployment) error {
	switch {
	case c.System == "":
		return errors.New("there is no prompt; set PromptConfig.System")
	case len(deployments) == 0:
		return errors.New("there is no deployment; set Deployments, or a Chain that shows its own (see llm.Describer)")
	case slices.Contains(deployments, nil):
		return errors.New("a deployment is nil")
	case len(c.Fixtures) == 0:
		return errors.New("there is nothing to ask; set Fixtures")
	case c.Samples < 0 || c.Parallel < 0 || c.Width < 0 || c.Timeout < 0 || !(c.Floor <= 1 && c.Overall <= 1):
		return fmt.Errorf("there are Samples %d, Parallel %d, Width %d, Timeout %v, Floor %v, Overall %v: use 0 for the defaults, "+
			"and shares up to 1", c.Samples, c.Parallel, c.Width, c.Timeout, c.Floor, c.Overall)
	}
	seen := map[string]bool{}
	for _, d := range deployments {
		if seen[d.Name] {
			return fmt.Errorf("two deployments are called %q, which a report could not tell apart; give each a name of its own", d.Name)
		}
		seen[d.Name] = true
	}
	clear(seen)
	for i := range c.Fixtures {
		f := &c.Fixtures[i]
		switch {
		case f.Name == "" || seen[f.Name]:
			return fmt.Errorf("fixture %d is called %q; give each a name of its own", i, f.Name)
		case f.Ask == "" && len(f.Request.Messages) == 0:
			return fmt.Errorf("fixture %q asks nothing; set Ask or Request.Messages", f.Name)
		}
		if err := f.Wants.check(); err != nil {
			return fmt.Errorf("fixture %q: %w", f.Name, err)
		}
		seen[f.Name] = true
	}
	for _, entry := range c.Allow {
		name, text, only := strings.Cut(entry, ": ")
		switch {
		case !slices.ContainsFunc(promptRules, func(r promptRule) bool { return r.name == name }):
			return fmt.Errorf("in Allow is %q, which is no rule of LintPrompt", entry)
		case only && !strings.Contains(c.System, text):
			return fmt.Errorf("in Allow is %q, but the prompt has no such text; take it out, or write it as the prompt does", entry)
		}
	}
	return nil
}

// limited runs f for each number below n, and no more than most at a time.
func limited(most, n int, f func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(most, n) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// score asks d everything.
func (c *PromptConfig) score(ctx context.Context, d *llm.Deployment) PromptScore {
	s := PromptScore{Deployment: d.Name, Fixtures: make([]FixtureScore, len(c.Fixtures))}
	samples := max(c.Samples, 1)
	failures := make([][]string, len(c.Fixtures)*samples)
	answers := make([]string, len(failures))
	speaks := languagesOf(c.Fixtures)
	limited(cmp.Or(c.Parallel, 1), len(failures), func(i int) {
		failures[i], answers[i] = c.sample(ctx, d, &c.Fixtures[i/samples], speaks)
	})
	for i := range c.Fixtures {
		f := &s.Fixtures[i]
		f.Name, f.Asked = c.Fixtures[i].Name, samples
		for j := i * samples; j < (i+1)*samples; j++ {
			if len(failures[j]) == 0 {
				f.Passed++
				continue
			}
			f.Failures = append(f.Failures, PromptFailure{Sample: j - i*samples + 1, Reasons: failures[j], Answer: answers[j]})
		}
	}
	return s
}

// sample asks d once. It returns what is wrong with the answer, and the answer.
func (c *PromptConfig) sample(
	ctx context.Context, d *llm.Deployment, f *Fixture, speaks languages,
) (wrong []string, text string) {
	timeout := cmp.Or(c.Timeout, time.Minute)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req := f.request(c.System)
	began := time.Now()
	resp, err := d.Call(limited, req)
	took := time.Since(began)
	if err != nil {
		e := llm.AsError(err)
		reason := "no answer: " + e.Class.String()
		if e.Evidence.Status != 0 {
			reason += fmt.Sprintf(" (HTTP %d)", e.Evidence.Status)
		}
		if e.Class == llm.Exhausted && limited.Err() != nil && ctx.Err() == nil {
			reason += fmt.Sprintf(", as Timeout (%v) was over", timeout)
		}
		return []string{reason}, ""
	}
	if took > timeout { // the deployment does not heed its context
		wrong = append(wrong, fmt.Sprintf("it took %v, longer than Timeout (%v)", took.Round(time.Millisecond), timeout))
	}
	return append(wrong, f.Wants.wrong(req, resp, speaks)...), resp.Text()
}
