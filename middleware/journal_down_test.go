package middleware_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

var errDiskFull = errors.New("disk full")

func journalFull(context.Context, string) error { return errDiskFull }

// journalStuck breaks the contract: it does not return when its context ends.
func journalStuck(until <-chan struct{}) func(context.Context, string) error {
	return func(context.Context, string) error { <-until; return nil }
}

func TestWithoutARowNoProviderIsCalledAndNobodyRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &journalBook{down: journalFull}
		rig, cfg := journalRig(t, middleware.DownRefuse)
		models := []*llmtest.Model{llmtest.Script(), llmtest.Script()}
		cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
		each := llm.New(cooldowns.Stage(), middleware.Retry(middleware.RetryConfig{}))
		chat := journalOf(b, middleware.Fallback(middleware.FallbackConfig{},
			each.Then(&llm.Deployment{Name: "a", Caller: models[0]}), each.Then(&llm.Deployment{Name: "b", Caller: models[1]})), cfg)
		for range 3 {
			start := time.Now()
			_, err := chat.Call(t.Context(), telemetryAsk())
			if !errors.Is(err, middleware.ErrJournalDown) || !errors.Is(err, llm.Exhausted) || !llm.AsError(err).Skipped {
				t.Fatal(err)
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("a refusal took %v", took)
			}
			synctest.Wait()
		}
		if models[0].Count()+models[1].Count() != 0 || len(cooldowns.Snapshot()) != 0 {
			t.Errorf("%d and %d calls, resting: %v", models[0].Count(), models[1].Count(), cooldowns.Snapshot())
		}
		if got := rig.logs.at("ERROR"); len(got) != 1 || !strings.Contains(got[0], "disk full") {
			t.Errorf("records: %q; want one of the change", got)
		}
		if rig.sums("llm.client.journal.refused")[""] == 0 || rig.sums("llm.client.journal.failures", "llm.journal.write")["begin"] == 0 {
			t.Errorf("metrics: %v", rig.metrics())
		}

		b.goDown(nil)
		llmtest.Advance(time.Second)
		if _, err := chat.Call(t.Context(), telemetryAsk()); err != nil {
			t.Errorf("after the store came back: %v", err)
		}
		if got := rig.logs.at("INFO"); len(got) != 1 || !strings.Contains(got[0], "llm journal back") {
			t.Errorf("records: %q; want one of the change", got)
		}
	})
}

func TestCallsGoOnWithoutTheStoreAndAnAlarmTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &journalBook{down: journalFull}
		rig, cfg := journalRig(t, middleware.DownGoOn)
		chat := journalOf(b, telemetryLeaf("a", "p", "m"), cfg)
		for range 3 {
			if _, err := chat.Call(t.Context(), telemetryAsk()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		failures := rig.sums("llm.client.journal.failures", "llm.journal.write")
		if failures["begin"] != 3 || failures["end"] != 6 || len(rig.logs.at("ERROR")) != 1 {
			t.Errorf("failures %v, records %q", failures, rig.logs.at("ERROR"))
		}
		b.goDown(nil)
		llmtest.Advance(time.Second)
		if _, err := chat.Call(t.Context(), telemetryAsk()); err != nil {
			t.Fatal(err)
		}
		wantText(t, "rows", b.text(), "1 a>a initial answered")
	})
}

func TestFailuresAreCountedByWhatWasWrittenAlsoWhereNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig, cfg := journalRig(t, middleware.DownGoOn)
		chat := journalOf(&journalBook{down: journalFull}, telemetryLeaf("a", "p", "m"), cfg,
			func(c *middleware.JournalConfig) { c.Ack = middleware.AckNone })
		if _, err := chat.Call(t.Context(), telemetryAsk()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if failures := rig.sums("llm.client.journal.failures", "llm.journal.write"); failures["begin"] != 1 || failures["end"] != 2 {
			t.Errorf("failures %v, want a begin and the ends of an attempt and of the call", failures)
		}
	})
}

func TestASettledRowMakesUpForOneThatCouldNotBeBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &journalBook{down: func(_ context.Context, what string) error {
			if what == "begin" {
				return errDiskFull
			}
			return nil
		}}
		_, cfg := journalRig(t, middleware.DownGoOn)
		if _, err := journalOf(b, telemetryLeaf("a", "p", "m"), cfg).Call(t.Context(), telemetryAsk()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantText(t, "rows", b.text(), "1 a>a initial answered")
	})
}

func TestAStoreThatHangsDelaysEachWriteByTheTimeoutAndThenNobody(t *testing.T) {
	for name, down := range map[string]middleware.JournalDown{"refuse": middleware.DownRefuse, "go on": middleware.DownGoOn} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hung := make(chan struct{})
				b := &journalBook{down: journalStuck(hung)}
				_, cfg := journalRig(t, down)
				chat := journalOf(b, telemetryLeaf("a", "p", "m"), cfg)
				var took []time.Duration
				for range 3 {
					start := time.Now()
					_, err := chat.Call(t.Context(), telemetryAsk())
					if (err != nil) != (down == middleware.DownRefuse) {
						t.Error(err)
					}
					took = append(took, time.Since(start))
				}
				if want := []time.Duration{time.Second, 0, 0}; !slices.Equal(took, want) {
					t.Errorf("calls took %v, want %v", took, want)
				}
				close(hung)
				synctest.Wait()
			})
		})
	}
}

func TestAnAnswerIsHandedOutAlthoughItsEndCouldNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &journalBook{down: func(_ context.Context, what string) error {
			if what == "begin" {
				return nil
			}
			return errDiskFull
		}}
		rig, cfg := journalRig(t, middleware.DownRefuse)
		resp, err := journalOf(b, telemetryLeaf("a", "p", "m"), cfg).Call(t.Context(), telemetryAsk())
		if err != nil || resp.Text() != "ok" {
			t.Fatalf("%v, %v", resp, err)
		}
		synctest.Wait()
		wantText(t, "rows", b.text(), "1 a>a initial started")
		if n := rig.sums("llm.client.journal.failures", "llm.journal.write")["end"]; n != 2 {
			t.Errorf("%v failures, want 2", n)
		}
	})
}

func TestAcksSayWhatACallWaitsFor(t *testing.T) {
	slow := func(ctx context.Context, _ string) error {
		select {
		case <-time.NewTimer(100 * time.Millisecond).C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for ack, want := range map[middleware.JournalAck]time.Duration{
		// The ends of the last attempt and of the call share a wait.
		middleware.AckAll: 200 * time.Millisecond, middleware.AckBegin: 100 * time.Millisecond, middleware.AckNone: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &journalBook{down: slow}
			chat := journalOf(b, telemetryLeaf("a", "p", "m"), func(c *middleware.JournalConfig) { c.Ack = ack })
			start := time.Now()
			if _, err := chat.Call(t.Context(), telemetryAsk()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("Ack %d: the call took %v, want %v", ack, took, want)
			}
			llmtest.Advance(time.Second)
			wantText(t, "rows", b.text(), "1 a>a initial answered")
			b.call(t)
		})
	}
}

func TestACallerThatLeavesWhileItsRowIsWrittenIsNotTheStoresFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &journalBook{down: func(ctx context.Context, what string) error {
			if what == "begin" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		rig, cfg := journalRig(t, middleware.DownRefuse)
		model := llmtest.Script()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := journalOf(b, &llm.Deployment{Name: "a", Caller: model}, cfg).Call(ctx, telemetryAsk())
		if !errors.Is(err, llm.Canceled) || model.Count() != 0 {
			t.Errorf("%v after %d calls", err, model.Count())
		}
		synctest.Wait()
		wantText(t, "rows", b.text(), "0 a>a initial not_made canceled")
		if got := rig.logs.at("ERROR"); len(got) != 0 {
			t.Errorf("records: %q", got)
		}
	})
}

func TestAStoreThatPanicsIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &journalBook{down: func(context.Context, string) error { panic("store") }}
		_, err := journalOf(b, telemetryLeaf("a", "p", "m")).Call(t.Context(), telemetryAsk())
		if !errors.Is(err, middleware.ErrJournalDown) {
			t.Error(err)
		}
		if p, ok := errors.AsType[*llm.PanicError](err); !ok || p.Value != "store" {
			t.Errorf("the cause: %v", err)
		}
	})
}

func TestWhileTheStoreIsDownARetryDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &journalBook{}
		_, cfg := journalRig(t, middleware.DownRefuse)
		model := llmtest.Script(llmtest.Step{Func: func(context.Context, *llm.Request) (*llm.Response, error) {
			b.goDown(journalFull)
			return nil, llm.Overloaded
		}})
		chat := journalOf(b, middleware.Retry(middleware.RetryConfig{}).Wrap(&llm.Deployment{Name: "a", Caller: model}), cfg,
			func(c *middleware.JournalConfig) { c.Timeout = time.Hour })
		start := time.Now()
		if _, err := chat.Call(t.Context(), telemetryAsk()); err == nil || model.Count() != 1 || time.Since(start) != 0 {
			t.Errorf("%v after %d calls and %v", err, model.Count(), time.Since(start))
		}
	})
}
