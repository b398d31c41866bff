package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// script is a call at random: what the models do, what the reader does, and the onion between them.
type script struct {
	rnd    *rand.Rand
	models []*randomModel
	chat   *llm.Pipeline
	about  []string // the onion and what is around it, for the reader of a failure

	continues map[string]bool // the deployments that may go on with an answer
	limit     time.Duration   // in which the call has to end, apart from its reader's last word. 0: none
	cancel    time.Duration   // when the caller leaves. 0: never
	theirs    time.Duration   // the caller's own deadline. 0: none
	attempts  int             // MaxAttempts
	unsafe    bool
	notice    string
	slow      time.Duration // at most, for each delta
	failAt    int           // the delta that the sink refuses. 0: none
}

var errReader = errors.New("the reader does not want more")

func (s *script) chance(percent int) bool { return s.rnd.IntN(100) < percent }

// upTo is a time of at most d, in whole milliseconds, rarely 0.
func (s *script) upTo(d time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(d/time.Millisecond)+1)) * time.Millisecond
}

func (s *script) say(format string, args ...any) {
	s.about = append(s.about, fmt.Sprintf(format, args...))
}

func newScript(rnd *rand.Rand) *script {
	s := &script{rnd: rnd, continues: map[string]bool{}}
	if s.chance(20) {
		s.cancel = time.Millisecond + s.upTo(20*time.Second)
	}
	if s.chance(15) {
		s.theirs = time.Millisecond + s.upTo(20*time.Second)
	}
	if s.chance(30) {
		s.attempts = 1 + s.rnd.IntN(5)
	}
	s.unsafe = s.chance(10)
	if s.chance(30) {
		s.slow = s.upTo(2 * time.Second)
	}
	if s.chance(15) {
		s.failAt = 1 + s.rnd.IntN(30)
	}
	s.say("canceled at %v, the caller's deadline %v, %d attempts, unsafe %v, each delta read in up to %v, the sink fails at %d",
		s.cancel, s.theirs, s.attempts, s.unsafe, s.slow, s.failAt)
	s.chat = s.outer(s.combined(1))
	s.say("%v", s.chat)
	return s
}

// outer is what is around all: the deadline, and what becomes of a break.
func (s *script) outer(c llm.Caller) *llm.Pipeline {
	var stages []llm.Stage
	if s.chance(85) {
		s.limit = time.Second + s.upTo(30*time.Second)
		stages = append(stages, middleware.Deadline(middleware.DeadlineConfig{Total: s.limit}))
	}
	if s.chance(60) {
		cfg := middleware.InterruptConfig{}
		if s.chance(40) {
			s.notice = "[it broke off]"
			cfg.Notice = s.notice
		}
		for range s.rnd.IntN(3) {
			d := s.deployment(llm.CanText | llm.CanStream | llm.CanTools | llm.CanPrefill)
			if s.chance(15) {
				d.Has = 0 // it does not say that it goes on with an answer
			}
			s.continues[d.Name] = d.Has != 0
			cfg.Continue = append(cfg.Continue, s.perDeployment(d))
		}
		if len(cfg.Continue) > 0 && s.chance(30) {
			cfg.Most = 1 + s.rnd.IntN(4)
		}
		stages = append(stages, middleware.Interrupt(cfg))
	}
	if s.chance(15) {
		stages = append(stages, s.retry())
	}
	if s.chance(15) {
		stages = append(stages, s.window())
	}
	return llm.New(stages...).Then(c)
}

// combined is one deployment, or several behind what moves calls.
func (s *script) combined(depth int) llm.Caller {
	kind := s.rnd.IntN(10)
	switch {
	case kind < 2 || depth > 3:
		return s.perDeployment(s.deployment(0))
	case kind < 8:
		var routes []llm.Caller
		for range 2 + s.rnd.IntN(2) {
			routes = append(routes, s.combined(depth+2))
		}
		return fallbackTo(routes...)
	}
	cfg := middleware.TokenRouterConfig{Counter: routerCounts(1), Normal: s.combined(depth + 1), Long: s.combined(depth + 1)}
	if s.chance(50) {
		cfg.Reactions = middleware.Reactions{llm.Interrupted: {Elsewhere: middleware.Larger}}
	}
	return middleware.TokenRouter(cfg)
}

func (s *script) retry() llm.Stage {
	return middleware.Retry(middleware.RetryConfig{
		Max: 1 + s.rnd.IntN(3), Base: 10*time.Millisecond + s.upTo(time.Second), Jitter: 1e-9,
	})
}

func (s *script) window() llm.Stage {
	var cfg middleware.CommitConfig
	switch s.rnd.IntN(5) {
	case 0:
		cfg.Whole = true
	case 1:
		cfg.Deltas = 1 + s.rnd.IntN(20)
	case 2:
		cfg.Bytes = 1 + s.rnd.IntN(100)
	case 3:
		cfg.Wait = time.Millisecond + s.upTo(5*time.Second)
	}
	return middleware.Commit(cfg)
}

func (s *script) perDeployment(d *llm.Deployment) llm.Caller {
	var stages []llm.Stage
	if s.chance(40) {
		stages = append(stages, middleware.NewCooldowns(middleware.CooldownConfig{}).Stage())
	}
	if s.chance(60) {
		stages = append(stages, s.retry())
	}
	if s.chance(40) {
		stages = append(stages, s.window())
	}
	if s.chance(15) {
		n, bad := 0, 1+s.rnd.IntN(3)
		stages = append(stages, middleware.Validate(func(*llm.Request, *llm.Response) error {
			if n++; n%bad == 0 {
				return errNoColon
			}
			return nil
		}))
	}
	if s.chance(60) {
		cfg := middleware.AttemptTimeoutConfig{}
		for _, limit := range []*time.Duration{&cfg.Total, &cfg.FirstToken, &cfg.Idle} {
			if s.chance(60) {
				*limit = time.Millisecond + s.upTo(10*time.Second)
			}
		}
		stages = append(stages, middleware.AttemptTimeout(cfg))
	}
	return llm.New(append(stages, classified)...).Then(d)
}

func (s *script) deployment(has llm.Capabilities) *llm.Deployment {
	m := &randomModel{s: s, name: string(rune('a' + len(s.models)))}
	s.models = append(s.models, m)
	if has == 0 && s.chance(20) {
		has = llm.CanText // no stream: the answer comes in one piece
	}
	return &llm.Deployment{Name: m.name, Provider: "test", Model: "m", Window: 1000 * (1 + s.rnd.IntN(2)), Has: has, Caller: m}
}

func (s *script) String() string {
	var b strings.Builder
	b.WriteString(strings.Join(s.about, "\n"))
	for _, m := range s.models {
		for _, a := range m.made {
			fmt.Fprintf(&b, "\n%s", a)
		}
	}
	return b.String()
}

// randomModel does something else with each attempt.
type randomModel struct {
	s    *script
	name string
	made []string // what it did
}

var faultsOfScripts = []error{
	llm.Unavailable, llm.Unavailable, llm.Overloaded, llm.Timeout, llm.RateLimited, llm.Quota, llm.TooLong, llm.NotFound, llm.Unsupported,
	llm.BadOutput, llm.Interrupted, llm.Invalid, llm.Auth, llm.Refused, errors.New("something else"),
	&llm.Error{Class: llm.RateLimited, RetryAfter: 3 * time.Second}, &llm.Error{Class: llm.Stalled},
}

// Call hands out an answer whose every word says whose it is: a2.07 is the eighth of a's second attempt.
func (m *randomModel) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	s := m.s
	m.made = append(m.made, "")
	n := len(m.made)
	note := func(format string, args ...any) {
		m.made[n-1] = fmt.Sprintf("%s%d: ", m.name, n) + fmt.Sprintf(format, args...)
	}
	length, gap := s.rnd.IntN(40), time.Duration(0)
	if s.chance(60) {
		gap = s.upTo(500 * time.Millisecond)
	}
	breaks := length + 1
	if s.chance(60) {
		breaks = s.rnd.IntN(length + 1)
		if s.chance(30) {
			breaks = 0
		}
	}
	how := s.rnd.IntN(100)
	failure := faultsOfScripts[s.rnd.IntN(len(faultsOfScripts))]
	tools, reasons := s.chance(15), s.chance(20)
	note("%d words, one in %v, it ends at %d (%d, %v), until its context ended", length, gap, breaks, how, failure)
	delay := time.Duration(0)
	if s.chance(50) {
		delay = s.upTo(3 * time.Second)
	}
	if err := pause(ctx, delay); err != nil {
		return nil, err
	}
	var answer llm.Accumulator
	for i := range length {
		if i == breaks {
			break
		}
		if err := pause(ctx, gap); err != nil {
			return nil, err
		}
		d := m.word(n, i, tools && i >= length-3, reasons && i < 3)
		answer.Add(d)
		if req.Sink == nil {
			continue
		}
		if err := req.Sink(d); err != nil {
			note("the sink failed at %d", i)
			switch s.rnd.IntN(4) {
			case 0:
				return nil, llm.Interrupted // it does not say so
			case 1:
				continue // it does not care
			}
			return nil, err
		}
	}
	if breaks <= length {
		switch {
		case how < 20: // silent for longer than anybody listens, where there is a limit
			if err := pause(ctx, time.Hour); err != nil {
				return nil, err
			}
		case how < 25:
			note("panics after %d of %d words", breaks, length)
			panic("a bug")
		}
		note("%v after %d of %d words", failure, breaks, length)
		return nil, failure
	}
	note("answers %d words", length)
	resp := answer.Response()
	resp.Stop = llm.StopEnd
	return resp, nil
}

// pause waits as a model does that looks after its context.
func pause(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *randomModel) word(attempt, i int, tool, reasoning bool) llm.Delta {
	w := fmt.Sprintf("%s%d.%02d ", m.name, attempt, i)
	switch {
	case tool:
		return llm.Delta{Kind: llm.DeltaToolCall, Index: i, Call: &llm.ToolCallDelta{ID: w, Name: w, Arguments: `{"n":1}`}}
	case reasoning:
		return llm.Delta{Kind: llm.DeltaReasoning, Text: w}
	}
	return llm.Delta{Text: w}
}
