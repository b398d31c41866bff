package llmtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelchain/llm"
)

// Claims say what a stage may do beyond passing calls on. What is not claimed, it must not do.
type Claims uint32

// The claims.
const (
	// MayRepeat: call what it wraps again, or another caller, while nothing was handed out.
	MayRepeat Claims = 1 << iota
	// MayContinue: make further calls to go on with an answer that broke off after part of it was handed out.
	MayContinue
	// MayCallBeside: have several calls under way at once.
	MayCallBeside
	// MayRefuse: return an error without a call, once earlier calls failed.
	MayRefuse
	// MayReplaceAnswer: answer a call that failed.
	MayReplaceAnswer
	// MayHoldBack: hand out deltas later than they come, or cut into other pieces that add up to the same.
	MayHoldBack
	// MayChangeRequest: ask something else than it was asked.
	MayChangeRequest
	// MayShare: have failures of one Caller that it wraps bear on another.
	MayShare
	// MayChangeAnswer: return another answer than came, and hand out the deltas of that. They still add up to the Response, a
	// refusal is still one, and each delta of text is still handed on before the next one is taken.
	MayChangeAnswer
)

// StageConfig says what [TestStage] tests.
type StageConfig struct {
	// New makes the stage, afresh for each check and within its bubble of testing/synctest.
	New func() llm.Stage
	// Combine is for a combinator, in the place of New: it makes a Caller of two, the first of which is preferred.
	Combine func(first, second llm.Caller) llm.Caller
	// Claims are what the stage may do. 0: nothing but pass calls on.
	Claims Claims
}

// TestStage checks that a stage keeps the contract of llm.Caller and of stages, around callers that answer, stream, refuse,
// fail, hang, panic and break off. Each failure prints the sentence of the contract that is broken.
//
// Each check runs in a bubble of testing/synctest, so a stage that talks to a network is given a fake of what it talks to.
// Time stands still in such a bubble while a call waits for a sync.Mutex that another call holds: the check of concurrent use
// finds a stage that holds one while it calls on.
//
// Run with -race, the checks of concurrent use see more.
func TestStage(t *testing.T, cfg StageConfig) {
	if (cfg.New == nil) == (cfg.Combine == nil) {
		t.Fatal("llm/llmtest: TestStage: set one of New and Combine")
	}
	found := &findings{}
	for _, c := range stageCases {
		if found.ends {
			return // it would be found again by each check that follows
		}
		t.Run(c.name, func(t *testing.T) {
			if why := found.forbids(c); why != "" {
				t.Skip(why)
			}
			s := &stageSuite{T: t, cfg: cfg, sentence: c.sentence, errorf: t.Errorf, found: found}
			s.run(c)
		})
	}
}

type stageCase struct {
	name, sentence string
	run            func(*stageSuite)
}

// findings are what the checks so far have found.
type findings struct {
	mu   sync.Mutex
	said []string
	// loose says that the sink was called from a goroutine of the stage's own, where no test can recover from a panic.
	loose bool
	// ends says that a goroutine never ends.
	ends bool
}

func (f *findings) add(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, text)
}

// forbids says why c is not checked. "": it is.
func (f *findings) forbids(c stageCase) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loose && (c.name == "sink panics" || c.name == "panic") {
		return "the rule \"sink\" is broken: a panic on a goroutine of the stage's own would end the test binary; " +
			"once that rule passes, this one is checked"
	}
	return ""
}

// scripted is the value of a panic of what the stage wraps. Where no one recovers from it, it is the last that is to be read.
func (s *stageSuite) scripted() string {
	s.found.mu.Lock()
	defer s.found.mu.Unlock()
	text := "scripted by llm/llmtest.TestStage. If it ended the test binary, the stage calls what it wraps on a goroutine that " +
		"does not recover; the contract: a panic of what a stage wraps passes or becomes an error"
	if len(s.found.said) > 0 {
		text += "\nFound before it:\n" + strings.Join(s.found.said, "\n")
	}
	return text
}

const noGoroutine = "no goroutine outlives the call"

var stageCases = []stageCase{
	{"answer", "an answer passes through whole, its account included", passesAnswer},
	{"stream", "a stream passes through: every delta once, in order, and the same Response at its end", passesStream},
	{"deltas at once", "a delta is handed on before the next one is taken, unless the stage may hold back", passesAtOnce},
	{"refusal", "a refusal is an answer and passes", passesRefusal},
	{"one call", "a call that is answered costs one call of what the stage wraps", oneCall},
	{"fresh response", "the Response belongs to the caller: each call returns a fresh one", freshResponse},
	{"one result", "exactly one result is non-nil", oneResult},
	{"failure stays", "a failure is not turned into an answer, unless the stage may replace answers", failureStays},
	{"error is found", "an error that leaves is an *llm.Error, or wraps its cause", errorFound},
	{"no repetition", "a call that failed is not made again, unless the stage may repeat", notRepeated},
	{"closed classes", "what fails everywhere (Invalid, Auth, Refused, Canceled) is not called again", closedClasses},
	{"replay unsafe", "what may act on the world is not called again once a provider may have acted on it", replayUnsafe},
	{"asked wait", "a deployment that asks for a wait is not called again before it is over", askedWait},
	{"error untouched", "an *llm.Error is a value: a stage that adds to one copies it first", errorUntouched},
	{"no refusal", "a stage calls what it wraps, whatever happened to earlier calls, unless it may refuse", notRefused},
	{"refusal's row", "a call that is refused has a row in the account, and an error with its class", refusedRow},
	{"one at a time", "one call is under way at a time, unless the stage may call beside", oneAtATime},
	{"request untouched", "a stage never writes to the request that it received", stageKeepsRequest},
	{"request not kept", "a stage does not keep the request when the call has returned", requestNotKept},
	{"request passed on", "what a stage passes on asks the same, unless it may change requests", requestPassedOn},
	{"account", "the account of attempts stays whole: requests are derived by Clone, and every attempt has its row", accountWhole},
	{"nil request", "a nil request does not panic: it is an error", nilRequest},
	{"sink fails", "the sink's error ends the call: nothing more is handed out, and the error that leaves wraps it", sinkEnds},
	{"sink", "the sink is called from the goroutine that called Call, one delta at a time, never after it returned", sinkKept},
	{"sink panics", "a panic of the sink reaches whose sink it is", sinkPanics},
	{"no call after output", "never a second provider call once something was handed out", notAfterOutput},
	{"partial", "the error of a call that handed something out says so: it has Partial", partialSaid},
	{"partial is true", "Partial names nothing that was not handed out", partialTrue},
	{"cancellation", "a canceled call returns at once, from a wait too", cancelsAtOnce},
	{"canceled error", "the error of a canceled call is context.Canceled", canceledError},
	{"nothing after the end", "no call begins after the context has ended", nothingAfterEnd},
	{"deadline", "the caller's deadline holds: the call returns at its end, and what the stage wraps has none later", deadlineKept},
	{"own limit", "an attempt that a stage's own limit ends is of that class: llm.Limit is the cause of its context", ownLimit},
	{"context", "what a stage wraps is called with a context derived from the caller's", contextDerived},
	{"panic", "a panic of what a stage wraps passes or becomes an error, and leaves no lock behind", panicPasses},
	{"gates", "gates that a stage put in force are lifted when it returns", gatesLifted},
	{"goroutines", noGoroutine, noGoroutines},
	{"concurrent calls", "a stage is safe for concurrent use, and mixes no two calls up", concurrentStage},
	{"describe", "Describe shows what the stage wraps, alone and in a chain", describesChild},
	{"two wraps", "two Callers wrapped by one stage share no state, unless the stage may share", sharesNothing},
}

type stageSuite struct {
	*testing.T // that of the bubble while a case runs
	cfg        StageConfig
	sentence   string
	// errorf takes what is wrong.
	errorf func(format string, args ...any)
	found  *findings
	// unlock frees what a stage under test keeps locked, which no bubble can outlive. nil: that ends the test binary.
	unlock func()
	// alone says that the stage is wrapped around its caller without a chain.
	alone bool
}

// run runs c with the stage alone and in a chain.
func (s *stageSuite) run(c stageCase) {
	s.Helper()
	for _, s.alone = range []bool{true, false} {
		if s.found.ends {
			return
		}
		s.bubble(c)
	}
}

func (s *stageSuite) bubble(c stageCase) {
	outside := s.T
	defer func() {
		s.T = outside
		v := recover() // what synctest says of goroutines that can go on no more
		if v == nil {
			return
		}
		if strings.Contains(fmt.Sprint(v), "main bubble goroutine has exited") {
			s.found.ends, s.sentence = true, noGoroutine
			s.broken("a goroutine never ends; it was left behind by a call of this check (no check follows)")
			return
		}
		s.broken("%v", v)
	}()
	synctest.Test(outside, func(t *testing.T) {
		s.T = t
		c.run(s)
	})
}

// broken reports that the contract is broken.
func (s *stageSuite) broken(format string, args ...any) {
	s.Helper()
	how := "in a chain"
	if s.alone {
		how = "alone"
	}
	text := fmt.Sprintf("%s (%s)\n\tthe contract: %s", fmt.Sprintf(format, args...), how, s.sentence)
	s.found.add(text)
	s.errorf("%s", text)
}

func (s *stageSuite) may(c Claims) bool { return s.cfg.Claims&c != 0 }

// stage is the stage under test.
func (s *stageSuite) stage(second *inner) llm.Stage {
	if s.cfg.New != nil {
		return s.cfg.New()
	}
	return llm.Stage{Name: "combinator", Wrap: func(next llm.Caller) llm.Caller { return s.cfg.Combine(next, second) }}
}

// around is the stage under test around what does as do says, and its calls.
func (s *stageSuite) around(do llm.CallerFunc) (llm.Caller, *calls) {
	all := &calls{}
	stage := s.stage(all.leaf("second", do))
	return s.wrap(stage, all.leaf("first", do)), all
}

func (s *stageSuite) wrap(stage llm.Stage, next llm.Caller) llm.Caller {
	if s.alone {
		return stage.Wrap(next)
	}
	return llm.New(stage).Then(next)
}
