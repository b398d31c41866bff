package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// The rule of all stages that can call twice: no second inner call once the stage's caller was handed output. A reader who
// was handed the beginnings of two answers cannot tell them apart, so what breaks the first does not matter, nor what the
// Caller that failed says about how far it got.

// onion is built around a model, all of whose calls count, whichever deployment makes them.
type onion func(model llm.Caller) llm.Caller

// leaves are the ways to put a model at the end of an onion.
var leaves = map[string]func(name string, model llm.Caller) llm.Caller{
	"a deployment":                 func(name string, model llm.Caller) llm.Caller { return fallbackDep(name, model) },
	"a deployment that classifies": func(name string, model llm.Caller) llm.Caller { return classifying.Then(fallbackDep(name, model)) },
	"of other make":                func(name string, model llm.Caller) llm.Caller { return nameless{name, model} },
	"one that forgets what it did": func(name string, model llm.Caller) llm.Caller { return nameless{name, forgetful(model)} },
}

// classified is made once: its tables cost more than all the rest of such an onion.
var classified = middleware.Classify(middleware.ClassifyConfig{})

var classifying = llm.New(middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}), classified)

// nameless is a Caller of other make, which no fallback takes for the same as another.
type nameless struct {
	name string
	llm.Caller
}

// forgetful makes an error of its own of each failure: its class is all that it knows.
func forgetful(model llm.Caller) llm.Caller {
	return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		resp, err := model.Call(ctx, req)
		if err != nil {
			err = llm.ClassOf(err)
		}
		return resp, err
	})
}

// restrained checks that an onion calls its model once, if the first call fails with class after it handed out so many
// deltas, and more often if it handed out fewer than one.
func restrained(t *testing.T, class llm.Class, deltas int, build onion) {
	t.Helper()
	for _, handed := range []int{0, deltas} {
		synctest.Test(t, func(t *testing.T) {
			model := llmtest.Script(llmtest.Step{Deltas: words(handed), Err: class}, llmtest.Text("a second answer"))
			r := &reader{}
			_, err := build(model).Call(t.Context(), r.ask())
			switch {
			case handed == 0 && model.Count() < 2:
				t.Errorf("%v before any output: %d calls, want this onion to call again; %v", class, model.Count(), err)
			case handed == 0:
			case model.Count() != 1 || r.n != handed:
				t.Errorf("%v after %d deltas: %d calls, the reader has %q; want one call", class, handed, model.Count(), r.text)
			case err == nil || llm.AsError(err).Partial == nil:
				t.Errorf("%v after %d deltas: the error %v does not say that part of the answer is out", class, handed, err)
			}
		})
	}
}

// everyLeaf runs a check with each way to end an onion.
func everyLeaf(t *testing.T, check func(t *testing.T, leaf func(string, llm.Caller) llm.Caller)) {
	for name, leaf := range leaves {
		t.Run(name, func(t *testing.T) { check(t, leaf) })
	}
}

func retrying(next llm.Caller) llm.Caller {
	return middleware.Retry(middleware.RetryConfig{}).Wrap(next)
}

func holding(cfg middleware.CommitConfig, next llm.Caller) llm.Caller {
	return middleware.Commit(cfg).Wrap(next)
}

func TestRetryMakesNoSecondCallOnceItsCallerWasHandedOutput(t *testing.T) {
	everyLeaf(t, func(t *testing.T, leaf func(string, llm.Caller) llm.Caller) {
		for class, row := range middleware.DefaultReactions() {
			if row.Again != middleware.Never {
				restrained(t, class, 1, func(m llm.Caller) llm.Caller { return retrying(leaf("a", m)) })
			}
		}
	})
}

func TestFallbackMakesNoSecondCallOnceItsCallerWasHandedOutput(t *testing.T) {
	everyLeaf(t, func(t *testing.T, leaf func(string, llm.Caller) llm.Caller) {
		for class, row := range middleware.DefaultReactions() {
			if row.Elsewhere == middleware.Anywhere && class != llm.Cooling && class != llm.Exhausted {
				restrained(t, class, 1, func(m llm.Caller) llm.Caller { return fallbackTo(leaf("a", m), leaf("b", m), leaf("c", m)) })
			}
		}
	})
}

func routed(normal, long llm.Caller) llm.Caller {
	return middleware.TokenRouter(middleware.TokenRouterConfig{Counter: routerCounts(1), Normal: normal, Long: long})
}

func TestTokenRouterMakesNoSecondCallOnceItsCallerWasHandedOutput(t *testing.T) {
	everyLeaf(t, func(t *testing.T, leaf func(string, llm.Caller) llm.Caller) {
		restrained(t, llm.TooLong, 1, func(m llm.Caller) llm.Caller { return routed(leaf("a", m), leaf("b", m)) })
	})
	// A deployment that had begun says Interrupted, so the row for that must not lead around the rule either.
	restrained(t, llm.Interrupted, 1, func(m llm.Caller) llm.Caller {
		return middleware.TokenRouter(middleware.TokenRouterConfig{
			Counter: routerCounts(1), Normal: fallbackDep("a", m), Long: fallbackDep("b", m),
			Reactions: middleware.Reactions{llm.Interrupted: {Elsewhere: middleware.Larger}},
		})
	})
}

// A check that fails comes when all deltas are out, unless more are held back than there are.
func TestValidateMakesNoSecondCallOnceItsCallerWasHandedOutput(t *testing.T) {
	for name, outer := range map[string]func(checked, other llm.Caller) llm.Caller{
		"under retry":              func(checked, _ llm.Caller) llm.Caller { return retrying(checked) },
		"under retry under retry":  func(checked, _ llm.Caller) llm.Caller { return retrying(retrying(checked)) },
		"under fallback":           fallbackOf,
		"under retry and fallback": func(checked, other llm.Caller) llm.Caller { return fallbackOf(retrying(checked), other) },
	} {
		for held, want := range map[int]int{0: 1, 3: 1, 4: 2} {
			synctest.Test(t, func(t *testing.T) {
				model, other := llmtest.Script(llmtest.Step{Deltas: words(3)}, llmtest.Text("a: b")), llmtest.Script(llmtest.Text("c: d"))
				checked := middleware.Validate(wantColon).Wrap(fallbackDep("a", model))
				if held > 0 {
					checked = holding(middleware.CommitConfig{Deltas: held}, checked)
				}
				r := &reader{}
				_, err := outer(checked, fallbackDep("b", other)).Call(t.Context(), r.ask())
				if got := model.Count() + other.Count(); got != want || (want == 1) != errors.Is(err, errNoColon) {
					t.Errorf("%s, %d deltas held back: %d calls, want %d; %v, the reader has %q", name, held, got, want, err, r.text)
				}
			})
		}
	}
}

func fallbackOf(first, second llm.Caller) llm.Caller { return fallbackTo(first, second) }

// What an inner stage has handed to a window outside it is handed out, as far as the inner stage can know.
func TestRetryInsideACommitWindowMakesNoSecondCallOnceTheWindowWasHandedOutput(t *testing.T) {
	for _, cfg := range []middleware.CommitConfig{{}, {Whole: true}} {
		synctest.Test(t, func(t *testing.T) {
			model, r := llmtest.Script(llmtest.Step{Deltas: words(3), Err: llm.Unavailable}, llmtest.Text("a second answer")), &reader{}
			_, err := holding(cfg, retrying(fallbackDep("a", model))).Call(t.Context(), r.ask())
			if err == nil || model.Count() != 1 || r.n != 0 {
				t.Errorf("%+v: %v after %d calls, the reader has %q", cfg, err, model.Count(), r.text)
			}
		})
	}
}

func TestNoStageOutsideACommitWindowMakesASecondCallOnceItHasOpened(t *testing.T) {
	everyLeaf(t, func(t *testing.T, leaf func(string, llm.Caller) llm.Caller) {
		for _, cfg := range []middleware.CommitConfig{{Deltas: 3}, {Bytes: 15}, {Deltas: 1}} { // words have five bytes
			restrained(t, llm.Unavailable, 3, func(m llm.Caller) llm.Caller { return retrying(holding(cfg, leaf("a", m))) })
			restrained(t, llm.Unavailable, 3, func(m llm.Caller) llm.Caller {
				return fallbackTo(holding(cfg, leaf("a", m)), holding(cfg, leaf("b", m)))
			})
			restrained(t, llm.TooLong, 3, func(m llm.Caller) llm.Caller {
				return routed(holding(cfg, leaf("a", m)), holding(cfg, leaf("b", m)))
			})
		}
	})
}

// A window that hands out all at the end has committed with its first delta, also when its reader does not take more.
func TestNoStageOutsideACommitWindowMakesASecondCallOnceItsReaderFailed(t *testing.T) {
	gone := errors.New("the reader left")
	for _, cfg := range []middleware.CommitConfig{{Whole: true}, {Deltas: 5}, {Deltas: 2}} {
		for at := 1; at <= 5; at++ {
			synctest.Test(t, func(t *testing.T) {
				model, n := llmtest.Script(llmtest.Step{Deltas: words(5)}), 0
				req := retryAsk()
				req.Sink = func(llm.Delta) error {
					if n++; n == at {
						return gone
					}
					return nil
				}
				held := holding(cfg, fallbackDep("a", model))
				_, err := fallbackTo(retrying(held), fallbackDep("b", model)).Call(t.Context(), req)
				if !errors.Is(err, gone) || model.Count() != 1 || n != at {
					t.Errorf("%+v, the reader fails at %d: %v after %d calls and %d deltas", cfg, at, err, model.Count(), n)
				}
			})
		}
	}
}

func TestNestedStagesMakeNoSecondCallOnceTheirCallerWasHandedOutput(t *testing.T) {
	dep := func(name string, m llm.Caller) llm.Caller { return fallbackDep(name, m) }
	for name, build := range map[string]onion{
		"retry around fallback around retry": func(m llm.Caller) llm.Caller {
			return retrying(fallbackTo(retrying(dep("a", m)), retrying(dep("b", m))))
		},
		"fallback around fallback": func(m llm.Caller) llm.Caller {
			return fallbackTo(fallbackTo(dep("a", m), dep("b", m)), dep("c", m))
		},
		"router around fallback around retry around commit": func(m llm.Caller) llm.Caller {
			stack := func(name string) llm.Caller {
				return retrying(holding(middleware.CommitConfig{Deltas: 2}, dep(name, m)))
			}
			return routed(fallbackTo(stack("a"), stack("b")), stack("c"))
		},
		"retry around router": func(m llm.Caller) llm.Caller { return retrying(routed(dep("a", m), dep("b", m))) },
		"retry around commit around retry": func(m llm.Caller) llm.Caller {
			return retrying(holding(middleware.CommitConfig{Deltas: 3}, retrying(dep("a", m))))
		},
		"commit around commit": func(m llm.Caller) llm.Caller {
			inner := retrying(holding(middleware.CommitConfig{Deltas: 2}, dep("a", m)))
			return retrying(holding(middleware.CommitConfig{Deltas: 3}, inner))
		},
		"retry around interrupt around fallback": func(m llm.Caller) llm.Caller {
			return retrying(middleware.Interrupt(middleware.InterruptConfig{}).Wrap(fallbackTo(dep("a", m), dep("b", m))))
		},
		"the onion of the README": func(m llm.Caller) llm.Caller {
			perDeployment := llm.New(middleware.NewCooldowns(middleware.CooldownConfig{}).Stage(), middleware.Retry(middleware.RetryConfig{})).
				Append(middleware.Commit(middleware.CommitConfig{Deltas: 1})).Append(stagesOf(classifying)...)
			return llm.New(middleware.Deadline(middleware.DeadlineConfig{}), middleware.Interrupt(middleware.InterruptConfig{})).
				Then(fallbackTo(perDeployment.Then(dep("a", m)), perDeployment.Then(dep("b", m))))
		},
	} {
		t.Run(name, func(t *testing.T) { restrained(t, llm.Unavailable, 3, build) })
	}
}

func stagesOf(c llm.Chain) (all []llm.Stage) {
	for s := range c.Stages() {
		all = append(all, s)
	}
	return all
}

// Interrupt goes on with an answer, but it never asks again what it is around.
func TestInterruptMakesNoSecondCallOfWhatItIsAround(t *testing.T) {
	for class := range middleware.DefaultReactions() {
		for handed := range 3 {
			model, other := llmtest.Script(llmtest.Step{Deltas: words(handed), Err: class}), llmtest.Script(says(" the rest"))
			r := &reader{}
			chat := interrupted(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", other)}}, model)
			_, err := chat.Call(t.Context(), r.ask())
			if model.Count() != 1 || other.Count() > 1 || handed == 0 && other.Count() > 0 || (err == nil) != (other.Count() == 1) {
				t.Errorf("%v after %d deltas: %d calls and %d of the other, %v", class, handed, model.Count(), other.Count(), err)
			}
			if (class == llm.Refused || class == llm.BadOutput) && other.Count() > 0 {
				t.Errorf("%v after %d deltas: it did not break off, and was continued", class, handed)
			}
		}
	}
}

// The reader is gone: nobody would read a continuation.
func TestInterruptMakesNoSecondCallOnceItsSinkFailed(t *testing.T) {
	other := llmtest.Script(says(" the rest"))
	swallows := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		return nil, fmt.Errorf("%w, not %w", llm.Interrupted, req.Sink(llm.Delta{Text: "one"}))
	})
	gone := errors.New("the reader left")
	req := retryAsk()
	req.Sink = func(llm.Delta) error { return gone }
	chat := middleware.Interrupt(middleware.InterruptConfig{Continue: []llm.Caller{prefill("f", other)}}).Wrap(swallows)
	if _, err := chat.Call(t.Context(), req); llm.ClassOf(err) != llm.Canceled || !errors.Is(err, gone) || other.Count() != 0 {
		t.Errorf("%v after %d continuations", err, other.Count())
	}
}

// A fallback's share of the time is for those that were silent: the answer that has begun is not cut off for the next.
func TestFallbackMakesNoSecondCallForWantOfTimeOnceItsCallerWasHandedOutput(t *testing.T) {
	for gap, want := range map[time.Duration]int{12 * time.Second: 1, 29 * time.Second: 2} { // before the first word, of 30 s
		synctest.Test(t, func(t *testing.T) {
			slow := llmtest.Step{Delay: gap, Deltas: words(2), Gap: 17 * time.Second, Err: llm.Unavailable}
			model, r := llmtest.Script(slow, llmtest.Text("a second answer")), &reader{}
			chat := llm.New(middleware.Deadline(middleware.DeadlineConfig{})).
				Then(fallbackTo(fallbackDep("a", model), fallbackDep("b", model)))
			_, err := chat.Call(t.Context(), r.ask())
			if model.Count() != want || want == 1 && r.n != 2 || want == 2 && r.text != "a second answer" {
				t.Errorf("the first word after %v: %d calls, the reader has %q, %v", gap, model.Count(), r.text, err)
			}
		})
	}
}
