package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// dice is what scripts and soaks are drawn with.
type dice struct{ rnd *rand.Rand }

func (d dice) chance(percent int) bool { return d.rnd.IntN(100) < percent }

// upTo is a time of at most most, in whole milliseconds, rarely 0.
func (d dice) upTo(most time.Duration) time.Duration {
	return time.Duration(d.rnd.Int64N(int64(most/time.Millisecond)+1)) * time.Millisecond
}

// script is a call at random: what the models do, what the reader does, and the onion between them.
type script struct {
	dice
	models []*randomModel
	chat   llm.Caller
	about  []string // the onion and what is around it, for the reader of a failure

	continues map[string]bool // the deployments that may go on with an answer
	seams     bool            // an interrupt tells what of an answer is out
	beside    bool            // attempts may be made side by side
	plain     bool            // nobody reads along
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

func (s *script) say(format string, args ...any) {
	s.about = append(s.about, fmt.Sprintf(format, args...))
}

func newScript(rnd *rand.Rand) *script {
	s := &script{dice: dice{rnd}, continues: map[string]bool{}}
	s.reads()
	s.chat = s.outer(s.combined(1))
	s.say("%v", s.chat)
	return s
}

// reads draws the caller, who is the reader too.
func (s *script) reads() {
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
}

// outer is what is around all: the deadline, and what becomes of a break.
func (s *script) outer(c llm.Caller) *llm.Pipeline {
	var stages []llm.Stage
	if s.chance(85) {
		s.limit = time.Second + s.upTo(30*time.Second)
		stages = append(stages, middleware.Deadline(middleware.DeadlineConfig{Total: s.limit}))
	}
	if s.chance(60) {
		stages = append(stages, s.interrupt(s.perDeployment))
	}
	if s.chance(15) {
		stages = append(stages, s.retry())
	}
	if s.chance(15) {
		stages = append(stages, s.window())
	}
	return llm.New(stages...).Then(c)
}

// interrupt draws what becomes of a break. stack is what is around a deployment that goes on.
func (s *script) interrupt(stack func(*llm.Deployment) llm.Caller) llm.Stage {
	cfg := middleware.InterruptConfig{}
	s.seams = true
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
		cfg.Continue = append(cfg.Continue, stack(d))
	}
	if len(cfg.Continue) > 0 && s.chance(30) {
		cfg.Most = 1 + s.rnd.IntN(4)
	}
	return middleware.Interrupt(cfg)
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
		stages = append(stages, s.validate())
	}
	if s.chance(60) {
		stages = append(stages, s.timeouts())
	}
	return llm.New(append(stages, classified)...).Then(d)
}

// validate rejects every answer, every second or every third.
func (s *script) validate() llm.Stage {
	bad := int64(1 + s.rnd.IntN(3))
	var n atomic.Int64
	return middleware.Validate(func(*llm.Request, *llm.Response) error {
		if n.Add(1)%bad == 0 {
			return errNoColon
		}
		return nil
	})
}

func (s *script) timeouts() llm.Stage {
	cfg := middleware.AttemptTimeoutConfig{}
	for _, limit := range []*time.Duration{&cfg.Total, &cfg.FirstToken, &cfg.Idle} {
		if s.chance(60) {
			*limit = time.Millisecond + s.upTo(10*time.Second)
		}
	}
	return middleware.AttemptTimeout(cfg)
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

// turn is what a model does with one attempt.
type turn struct {
	delay, gap     time.Duration
	length, breaks int   // in words; with breaks beyond length it answers
	how            int   // below 20 it is silent in the place of failure, below 25 it panics
	failure        error // which it breaks with
	tools, reasons bool
	sinkFailed     int       // what it makes of a sink that fails
	whole, broken  llm.Usage // that it reports with an answer, and with a failure
}

func (d dice) turn() turn {
	t := turn{length: d.rnd.IntN(40)}
	if d.chance(60) {
		t.gap = d.upTo(500 * time.Millisecond)
	}
	t.breaks = t.length + 1
	if d.chance(60) {
		t.breaks = d.rnd.IntN(t.length + 1)
		if d.chance(30) {
			t.breaks = 0
		}
	}
	t.how = d.rnd.IntN(100)
	t.failure = faultsOfScripts[d.rnd.IntN(len(faultsOfScripts))]
	t.tools, t.reasons = d.chance(15), d.chance(20)
	if d.chance(50) {
		t.delay = d.upTo(3 * time.Second)
	}
	t.sinkFailed = d.rnd.IntN(4)
	return t
}

// Call does what is drawn for this attempt.
func (m *randomModel) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return m.play(ctx, req, m.s.turn())
}

// play hands out an answer whose every word says whose it is: a2.07 is the eighth of a's second attempt.
func (m *randomModel) play(ctx context.Context, req *llm.Request, t turn) (*llm.Response, error) {
	m.made = append(m.made, "")
	n := len(m.made)
	note := func(format string, args ...any) {
		m.made[n-1] = fmt.Sprintf("%s%d: ", m.name, n) + fmt.Sprintf(format, args...)
	}
	note("%d words, one in %v, it ends at %d (%d, %v), until its context ended", t.length, t.gap, t.breaks, t.how, t.failure)
	if err := pause(ctx, t.delay); err != nil {
		return nil, err
	}
	var answer llm.Accumulator
	for i := range t.length {
		if i == t.breaks {
			break
		}
		if err := pause(ctx, t.gap); err != nil {
			return nil, err
		}
		d := m.word(n, i, t.tools && i >= t.length-3, t.reasons && i < 3)
		answer.Add(d)
		if req.Sink == nil {
			continue
		}
		if err := req.Sink(d); err != nil {
			note("the sink failed at %d", i)
			switch t.sinkFailed {
			case 0:
				return nil, llm.Interrupted // it does not say so
			case 1:
				continue // it does not care
			}
			return nil, err
		}
	}
	if t.breaks <= t.length {
		switch {
		case t.how < 20: // silent for longer than anybody listens, where there is a limit
			if err := pause(ctx, time.Hour); err != nil {
				return nil, err
			}
		case t.how < 25:
			note("panics after %d of %d words", t.breaks, t.length)
			panic("a bug")
		}
		note("%v after %d of %d words", t.failure, t.breaks, t.length)
		if t.broken == (llm.Usage{}) {
			return nil, t.failure
		}
		e := llm.CopyError(t.failure)
		e.Usage = t.broken
		return nil, e
	}
	note("answers %d words", t.length)
	resp := answer.Response()
	resp.Stop, resp.Usage = llm.StopEnd, t.whole
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
