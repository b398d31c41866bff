package middleware_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// cooldownAround is the stage of c around a deployment called name.
func cooldownAround(c *middleware.Cooldowns, name string, model llm.Caller) llm.Caller {
	return llm.New(c.Stage()).Then(&llm.Deployment{Name: name, Caller: model})
}

// cooldownCall calls c and returns its error, nil if it answered.
func cooldownCall(t *testing.T, c llm.Caller) *llm.Error {
	t.Helper()
	_, err := c.Call(t.Context(), retryAsk())
	if err == nil {
		return nil
	}
	return llm.AsError(err)
}

// cooldownIsResting reports whether a call to c is refused because it rests.
func cooldownIsResting(t *testing.T, c llm.Caller) bool {
	t.Helper()
	e := cooldownCall(t, c)
	return e != nil && e.Class == llm.Cooling
}

// cooldownHeld puts a call under way whose outcome comes when decide is called, after the time that is then.
func cooldownHeld(t *testing.T, chat func(model llm.Caller) llm.Caller) (decide func(error), result func() *llm.Error) {
	t.Helper()
	outcome, done := make(chan error), make(chan *llm.Error, 1)
	c := chat(llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
		if err := <-outcome; err != nil {
			return nil, err
		}
		return &llm.Response{Parts: []llm.Part{llm.Text("late")}}, nil
	}))
	go func() {
		_, err := c.Call(context.WithoutCancel(t.Context()), retryAsk())
		if err == nil {
			done <- nil
			return
		}
		done <- llm.AsError(err)
	}()
	synctest.Wait()
	return func(err error) { outcome <- err; synctest.Wait() }, func() *llm.Error { return <-done }
}

// cooldownEnds is how long the one rest that there is lasts from now.
func cooldownEnds(t *testing.T, c *middleware.Cooldowns) time.Duration {
	t.Helper()
	states := c.Snapshot()
	if len(states) != 1 {
		t.Fatalf("snapshot %+v, want one rest", states)
	}
	return time.Until(states[0].Until)
}

func TestCooldownRestsByClassAlone(t *testing.T) {
	for class, rests := range map[llm.Class]bool{
		llm.Unavailable: true, llm.Overloaded: true, llm.Timeout: true, llm.Stalled: true, llm.RateLimited: true,
		llm.Quota: true, llm.NotFound: true, llm.Interrupted: true,
		llm.Unknown: false, llm.TooLong: false, llm.Unsupported: false, llm.BadOutput: false, llm.Invalid: false,
		llm.Auth: false, llm.Refused: false, llm.Cooling: false, llm.Exhausted: false, llm.Canceled: false,
	} {
		t.Run(class.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, model := middleware.NewCooldowns(middleware.CooldownConfig{}), llmtest.Script(llmtest.Fail(class))
				chat := c.Stage().Wrap(model)
				for range 1000 { // a thousand cancels rest nothing
					if _, err := chat.Call(t.Context(), retryAsk()); err == nil {
						t.Fatal("no error")
					}
				}
				if rested := model.Count() == 1 && len(c.Snapshot()) == 1; rested != rests || !rests && model.Count() != 1000 {
					t.Errorf("%d calls went through, snapshot %+v; want it to rest: %v", model.Count(), c.Snapshot(), rests)
				}
			})
		})
	}
}

func TestCooldownBeginsWhenTheRetriesAreSpentAndLastsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := llmtest.Fail(llm.RateLimited) // without a wait
		model := llmtest.Script(limited, limited, limited, llmtest.Text("back"))
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		chat := llm.New(c.Stage(), middleware.Retry(middleware.RetryConfig{})).Then(&llm.Deployment{Name: "a", Caller: model})
		if e := cooldownCall(t, chat); e == nil || e.Class != llm.RateLimited || model.Count() != 3 {
			t.Fatalf("error %v after %d calls, want the last rate limit after three", e, model.Count())
		}
		start := time.Now()
		for time.Since(start) < time.Minute {
			before := time.Now()
			if !cooldownIsResting(t, chat) || time.Since(before) != 0 {
				t.Fatalf("after %v it does not rest, or took %v to say so", time.Since(start), time.Since(before))
			}
			llmtest.Advance(time.Second)
		}
		if e := cooldownCall(t, chat); e != nil || model.Count() != 4 {
			t.Errorf("error %v after a minute and %d calls, want the probe to answer", e, model.Count())
		}
		if e := cooldownCall(t, chat); e != nil || len(c.Snapshot()) != 0 {
			t.Errorf("error %v, snapshot %+v; want all to serve after the probe", e, c.Snapshot())
		}
	})
}

func TestCooldownSaysWhatIsLeftAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		overloaded := &llm.Error{Class: llm.Overloaded, Message: "busy", Evidence: llm.Evidence{Status: 529}}
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		chat := cooldownAround(c, "a", llmtest.Script(llmtest.Fail(overloaded)))
		cooldownCall(t, chat)
		llmtest.Advance(48 * time.Second)
		_, err := chat.Call(t.Context(), retryAsk())
		e := llm.AsError(err)
		if e.Class != llm.Cooling || e.Deployment != "a" || e.RetryAfter != 12*time.Second {
			t.Errorf("error %+v, want cooling of a with the 12s that are left", e)
		}
		if e.Message != "rests for 12s more after overloaded" || !strings.Contains(err.Error(), "busy") {
			t.Errorf("error says %q, want what is left and why", err)
		}
		cause, ok := errors.AsType[*llm.Error](e.Err)
		if !ok || cause.Evidence.Status != 529 || !errors.Is(err, llm.Overloaded) {
			t.Errorf("cause %+v, want the 529", e.Err)
		}
		if len(e.Attempts) != 1 || e.Attempts[0].Skipped != e.Message || e.Attempts[0].Index != 0 {
			t.Errorf("account %+v, want one row that was skipped", e.Attempts)
		}
	})
}

func TestCooldownKeepsNothingOfAnAnswerInTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := &llm.Error{
			Class: llm.Interrupted, Partial: &llm.Response{Parts: []llm.Part{llm.Text("for her eyes only")}},
			Attempts: []llm.Attempt{{Deployment: "x"}}, Evidence: llm.Evidence{Status: 200, Body: "for her eyes only"},
		}
		c := middleware.NewCooldowns(middleware.CooldownConfig{})
		chat := cooldownAround(c, "a", llmtest.Script(llmtest.Fail(secret)))
		cooldownCall(t, chat)
		cause := llm.AsError(cooldownCall(t, chat).Err)
		if cause.Partial != nil || cause.Attempts != nil || cause.Evidence.Body != "" || cause.Evidence.Status != 200 {
			t.Errorf("the next caller gets %+v, want the failure without what was answered", cause)
		}
		if secret.Partial == nil || secret.Attempts == nil {
			t.Error("the error of the first caller was written to")
		}
	})
}

func TestCooldownLastsAsLongAsTheProviderAsksWithinBounds(t *testing.T) {
	const day = 24 * time.Hour
	type config = middleware.CooldownConfig
	date := func(c llm.Class, in time.Duration) *llm.Error {
		return &llm.Error{Class: c, RetryAfter: in, CoolUntil: true}
	}
	for _, test := range []struct {
		name        string
		err         *llm.Error
		cfg         config
		least, most time.Duration
	}{
		{"no wait", retryAfter(0), config{}, time.Minute, time.Minute},
		{"a shorter wait", retryAfter(time.Second), config{}, time.Minute, time.Minute},
		{"a longer wait", retryAfter(10 * time.Minute), config{}, 10 * time.Minute, 601 * time.Second},
		{"a wait above MaxWait", retryAfter(258 * time.Minute), config{}, time.Hour, time.Hour},
		{"a MaxWait of ours", retryAfter(time.Hour), config{MaxWait: 2 * time.Minute}, 2 * time.Minute, 2 * time.Minute},
		{"a date", date(llm.RateLimited, 5*time.Hour), config{}, 5 * time.Hour, 5*time.Hour + time.Second},
		{"a date in three days", date(llm.Quota, 3*day), config{}, day, day},
		{"a MaxUntil of ours", date(llm.Quota, 3*day), config{MaxUntil: 2 * day}, 2 * day, 2 * day},
		{"a wait without end", retryAfter(1<<63 - 1), config{}, time.Hour, time.Hour},
		{"a wait that is over", retryAfter(-1 << 63), config{}, time.Minute, time.Minute},
		{"quota", &llm.Error{Class: llm.Quota}, config{}, 15 * time.Minute, 15 * time.Minute},
		{"a Long of ours", &llm.Error{Class: llm.Quota}, config{Long: time.Hour}, time.Hour, time.Hour},
		{"a Rest of ours", &llm.Error{Class: llm.NotFound}, config{Rest: time.Second}, time.Second, time.Second},
		{"a Rest above the usual Cap", retryAfter(0), config{Rest: time.Hour}, time.Hour, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middleware.NewCooldowns(test.cfg)
				chat := cooldownAround(c, "a", llmtest.Script(llmtest.Fail(test.err), llmtest.Text("back")))
				cooldownCall(t, chat)
				if ends := cooldownEnds(t, c); ends < test.least || ends > test.most {
					t.Errorf("it rests for %v, want %v to %v", ends, test.least, test.most)
				}
				if asked := c.Snapshot()[0].Asked; asked != test.err.RetryAfter {
					t.Errorf("the snapshot says %v was asked, want %v", asked, test.err.RetryAfter)
				}
				llmtest.Advance(test.least - time.Millisecond)
				if !cooldownIsResting(t, chat) {
					t.Errorf("it serves before %v", test.least)
				}
				llmtest.Advance(test.most - test.least + time.Millisecond)
				if e := cooldownCall(t, chat); e != nil {
					t.Errorf("after %v: %v", test.most, e)
				}
			})
		})
	}
}

func TestCooldownOfOverlappingFailuresKeepsTheLaterEnd(t *testing.T) {
	hour := retryAfter(time.Hour)
	for _, order := range [][]error{{hour, llm.Unavailable}, {llm.Unavailable, hour}} {
		synctest.Test(t, func(t *testing.T) {
			c := middleware.NewCooldowns(middleware.CooldownConfig{})
			around := func(m llm.Caller) llm.Caller { return cooldownAround(c, "a", m) }
			first, _ := cooldownHeld(t, around)
			second, _ := cooldownHeld(t, around)
			first(order[0])
			second(order[1])
			if ends := cooldownEnds(t, c); ends < time.Hour || c.Snapshot()[0].Class != llm.RateLimited {
				t.Errorf("after %v it rests for %v because of %v, want the longer rest", order, ends, c.Snapshot()[0].Class)
			}
		})
	}
}
