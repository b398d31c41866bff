package sqlstore

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// attemptRow is an attempt that begins.
func attemptRow(n int64) middleware.JournalAttempt {
	return middleware.JournalAttempt{
		Call: fmt.Sprintf("%012x-call", n), Seq: 1, Workflow: "w", Index: 1, Requested: "a", Deployment: "a", Provider: "p",
		Model: "m", Reason: "initial", Start: time.Now(), State: middleware.JournalStarted,
	}
}

// texts is what a query of one text column finds.
func texts(t *testing.T, s *Store, query string, args ...any) []string {
	t.Helper()
	out, err := all(t.Context(), s.read(), query, args, func(row scanner, into *string) error { return row.Scan(into) })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheViewsShowWhatWasWritten(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{})
		j, ctx := s.Journal(), t.Context()
		a := attemptRow(1)
		a.Start = time.Date(2026, 3, 4, 23, 59, 58, 5e8, time.UTC)
		noErr(t, j.Begin(ctx, a))
		want(t, "unsettled", texts(t, s, "SELECT call_id || ' ' || deployment || ' ' || alive FROM llm_unsettled"), []string{a.Call + " a 1"})
		want(t, "running", texts(t, s, "SELECT outcome FROM llm_calls"), []string{"running"})

		a.State, a.Class, a.Commit, a.Status, a.RequestID = middleware.JournalFailed, llm.RateLimited, llm.CommitNone, 429, "req-1"
		a.Took, a.Detail = 1500*time.Millisecond, "a: rate_limited (HTTP 429)"
		noErr(t, j.Settle(ctx, a))
		b := a
		b.Seq, b.Index, b.Deployment, b.Reason, b.From, b.After = 2, 2, "b", "fallback", "a", llm.RateLimited
		b.State, b.Class, b.Commit, b.Status, b.RequestID = middleware.JournalAnswered, 0, llm.Committed, 200, "req-2"
		b.Usage, b.Priced, b.CostUSD, b.Waited = llm.Usage{Input: 100, Output: 20, CachedInput: 7, Estimated: true}, true, 0.25, time.Second
		noErr(t, j.Begin(ctx, b))
		noErr(t, j.Settle(ctx, b))
		noErr(t, j.Finish(ctx, middleware.JournalCall{
			Call: a.Call, Workflow: "w", Start: a.Start, Took: 3 * time.Second, Outcome: middleware.OutcomeFallback, Requested: "a",
			Deployment: "b", Trace: "0af7", Receipt: "job-7",
			Skipped: []middleware.JournalSkip{{Deployment: "z", Class: llm.Cooling, Why: "rests"}},
		}))

		want(t, "unsettled", texts(t, s, "SELECT call_id FROM llm_unsettled"), nil)
		want(t, "attempts", texts(t, s, "SELECT seq || ' ' || attempt || ' ' || requested || '>' || deployment || ' ' || reason || ' ' || "+
			"after_deployment || ' ' || after_class || ' ' || state || ' ' || class || ' ' || commit_state || ' ' || status || ' ' || "+
			"request_id || ' ' || detail FROM llm_attempts ORDER BY seq"), []string{
			"1 1 a>a initial   failed rate_limited none 429 req-1 a: rate_limited (HTTP 429)",
			"2 2 a>b fallback a rate_limited answered  committed 200 req-2 a: rate_limited (HTTP 429)",
		})
		var attempts, tokens int
		var cost, took float64
		var skipped, day, trace, receipt string
		noErr(t, s.read().one(ctx, "SELECT attempts, tokens, cost_usd, took_ms, skipped, trace, receipt FROM llm_calls WHERE call_id = ?",
			[]any{a.Call}, &attempts, &tokens, &cost, &took, &skipped, &trace, &receipt))
		want(t, "the call", []any{attempts, tokens, cost, took, skipped, trace, receipt},
			[]any{2, 120, 0.25, 3000.0, `[{"deployment":"z","class":"cooling","why":"rests"}]`, "0af7", "job-7"})
		var unpriced, estimated int
		noErr(t, s.read().one(ctx, "SELECT day, sum(attempts), sum(cost_usd), sum(unpriced), sum(estimated) FROM llm_spend "+
			"WHERE workflow = ? GROUP BY day", []any{"w"}, &day, &attempts, &cost, &unpriced, &estimated))
		want(t, "the spend", []any{day, attempts, cost, unpriced, estimated}, []any{"2026-03-04", 2, 0.25, 1, 1})
		want(t, "outcomes", texts(t, s, "SELECT workflow || ' ' || day || ' ' || outcome || ' ' || calls FROM llm_outcomes"),
			[]string{"w 2026-03-04 fallback_recovery 1"})
		started := texts(t, s, "SELECT CAST(started AS TEXT) FROM llm_attempts WHERE seq = 1")
		if len(started) != 1 || !strings.HasPrefix(started[0], "2026-03-0") || !strings.Contains(started[0], "58.5") {
			t.Errorf("started: %q", started)
		}
	})
}

func TestRowsMayComeInAnyOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{})
		j, ctx := s.Journal(), t.Context()
		a := attemptRow(1)
		end := a
		end.State = middleware.JournalAnswered
		noErr(t, j.Finish(ctx, middleware.JournalCall{Call: a.Call, Workflow: "w", Start: a.Start, Outcome: middleware.OutcomePrimary}))
		noErr(t, j.Settle(ctx, end))
		noErr(t, j.Begin(ctx, a)) // late: it changes nothing
		want(t, "state", texts(t, s, "SELECT state FROM llm_attempt"), []string{"answered"})
		want(t, "outcome", texts(t, s, "SELECT outcome FROM llm_call"), []string{"primary_success"})
		end.State, end.Class = middleware.JournalFailed, llm.BadOutput // a validator rejected it
		noErr(t, j.Settle(ctx, end))
		want(t, "state", texts(t, s, "SELECT state || ' ' || class FROM llm_attempt"), []string{"failed bad_output"})
	})
}

func TestTextsThatNoDatabaseTakesAreMended(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{})
		a := attemptRow(1)
		a.RequestID, a.Workflow = "a\x00b\xff", "it's \"so\"; DROP TABLE llm_attempt"
		noErr(t, s.Journal().Begin(t.Context(), a))
		want(t, "texts", texts(t, s, "SELECT request_id || ' ' || workflow FROM llm_attempt"),
			[]string{"ab\uFFFD it's \"so\"; DROP TABLE llm_attempt"})
	})
}

// soil sets every text of v to one that no database takes, apart from those that say what the row is.
func soil(v reflect.Value) {
	for _, f := range v.Fields() {
		if f.Kind() == reflect.String && f.Type() == reflect.TypeFor[string]() {
			f.SetString(f.String() + "\x00\xff")
		}
	}
}

func TestNoTextOfARowKeepsItFromTheJournal(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{})
		j, ctx := s.Journal(), t.Context()
		a := attemptRow(1)
		soil(reflect.ValueOf(&a).Elem())
		noErr(t, j.Begin(ctx, a))
		a.State = middleware.JournalAnswered
		noErr(t, j.Settle(ctx, a))
		skip := middleware.JournalSkip{}
		soil(reflect.ValueOf(&skip).Elem())
		c := middleware.JournalCall{Outcome: middleware.OutcomePrimary, Start: a.Start, Skipped: []middleware.JournalSkip{skip}}
		soil(reflect.ValueOf(&c).Elem())
		c.Call = a.Call
		noErr(t, j.Finish(ctx, c))
		want(t, "rows", texts(t, s, "SELECT outcome || ' ' || request_id || ' ' || trace || receipt FROM llm_call JOIN llm_attempt USING (call_id)"),
			[]string{"primary_success \uFFFD \uFFFD\uFFFD"})
	})
}

// expire makes the leases of all but s run out.
func expire(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.read().exec(t.Context(), "UPDATE llm_owner SET until_us = 0 WHERE owner <> ?", s.owner); err != nil {
		t.Fatal(err)
	}
}

func TestWhatAProcessLeftUnsettledIsFoundAndThatOfTheLivingIsNot(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		gone, alive := mustOpen(t, p, Config{Lease: time.Hour}), mustOpen(t, p, Config{Lease: time.Hour})
		ctx := t.Context()
		a, b := attemptRow(1), attemptRow(2)
		noErr(t, gone.Journal().Begin(ctx, a))
		noErr(t, alive.Journal().Begin(ctx, b))
		if rows, err := alive.Journal().Recover(ctx); err != nil || len(rows) != 0 {
			t.Errorf("while both are alive: %v, %v", rows, err)
		}
		expire(t, alive)
		open, err := alive.Journal().Unsettled(ctx)
		if err != nil || len(open) != 2 || open[0].Call != a.Call || open[0].Alive || open[1].Call != b.Call || !open[1].Alive {
			t.Errorf("unsettled: %+v, %v", open, err)
		}

		var all sync.WaitGroup
		var mu sync.Mutex
		var told []middleware.JournalAttempt
		for range 4 {
			all.Go(func() {
				rows, err := alive.Journal().Recover(ctx)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				told = append(told, rows...)
			})
		}
		all.Wait()
		if len(told) != 1 || told[0].Call != a.Call || told[0].State != middleware.JournalUnknown || told[0].Commit != llm.CommitUnknown ||
			told[0].Deployment != "a" || told[0].Start.UnixMicro() != a.Start.UnixMicro() {
			t.Errorf("recovered: %+v", told)
		}
		want(t, "states", texts(t, alive, "SELECT state FROM llm_attempt ORDER BY call_id"), []string{"unknown", "started"})
		want(t, "outcomes", texts(t, alive, "SELECT outcome FROM llm_call ORDER BY call_id"), []string{"unknown", "running"})
		want(t, "the view", texts(t, alive, "SELECT state || alive FROM llm_unsettled ORDER BY call_id"), []string{"unknown0", "started1"})

		a.State = middleware.JournalAnswered // it was only halted
		noErr(t, gone.Journal().Settle(ctx, a))
		want(t, "states", texts(t, alive, "SELECT state FROM llm_attempt ORDER BY call_id"), []string{"answered", "started"})
	})
}

func TestAStoreThatWasClosedLeavesWhatIsUnderWayToBeFound(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		other := mustOpen(t, p, Config{})
		s, err := p.open(t.Context(), Config{Lease: time.Hour})
		noErr(t, err)
		noErr(t, s.Journal().Begin(t.Context(), attemptRow(1)))
		noErr(t, s.Close())
		if rows, err := other.Journal().Recover(t.Context()); err != nil || len(rows) != 1 {
			t.Errorf("%v, %v", rows, err)
		}
	})
}

func TestTheLeaseIsRenewed(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{Lease: 30 * time.Millisecond})
		first := texts(t, s, "SELECT CAST(until_us AS TEXT) FROM llm_owner")
		for {
			if now := texts(t, s, "SELECT CAST(until_us AS TEXT) FROM llm_owner"); len(now) != 1 || now[0] > first[0] {
				want(t, "owners", len(now), 1)
				return
			}
		}
	})
}

func TestAlertsCountTheOutcomesApart(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{})
		j, ctx := s.Journal(), t.Context()
		now := time.Now()
		n := 0
		for i, o := range []middleware.Outcome{
			middleware.OutcomePrimary, middleware.OutcomeRetry, middleware.OutcomeFallback, middleware.OutcomeDegraded,
			middleware.OutcomeFailed, middleware.OutcomeQueued, middleware.OutcomeCanceled, callUnknown, callRunning,
		} {
			for range i + 1 {
				n++
				noErr(t, j.Finish(ctx, middleware.JournalCall{Call: fmt.Sprint(n), Workflow: "w", Start: now, Outcome: o}))
			}
		}
		noErr(t, j.Finish(ctx, middleware.JournalCall{Call: "x", Start: now.Add(-time.Hour), Outcome: middleware.OutcomeFailed}))
		for i, o := range []middleware.Outcome{middleware.OutcomeQueued, middleware.OutcomeQueued, middleware.OutcomePrimary} {
			noErr(t, j.Finish(ctx, middleware.JournalCall{
				Call: fmt.Sprint("delivery ", i), Workflow: "w", Start: now, Outcome: o, Receipt: "job", Delivery: true,
			}))
		}
		w := Alerts{
			Workflow: "w", Primary: 2, Retry: 2, Fallback: 3, Degraded: 4, Failed: 5, Queued: 6, Requeued: 2, Canceled: 7, Unknown: 8,
			Running: 9,
		}
		want(t, "views", append(texts(t, s, "SELECT calls || ' ' || deliveries FROM llm_outcomes WHERE outcome = 'queued'"),
			texts(t, s, "SELECT CAST(count(*) AS TEXT) FROM llm_calls WHERE delivery = 1")...), []string{"8 2", "3"})
		got, err := j.Alerts(ctx, time.Time{})
		noErr(t, err)
		want(t, "all", got, []Alerts{{Failed: 1}, w})
		got, err = j.Alerts(ctx, now)
		noErr(t, err)
		want(t, "since", got, []Alerts{w})
		noErr(t, j.Finish(ctx, middleware.JournalCall{Call: "y", Start: now, Outcome: "of a later program"}))
		if got, err := j.Alerts(ctx, now); err == nil {
			t.Errorf("an outcome that is not known is left out: %v", got)
		}
	})
}

func TestPruneRemovesWhatIsOldAndOver(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{})
		j, ctx := s.Journal(), t.Context()
		concurrently(8, func() {
			for range 200 {
				a := attemptRow(time.Now().UnixNano())
				a.Call += fmt.Sprintf("%p", &a)
				a.Start, a.State = a.Start.Add(-time.Hour), middleware.JournalAnswered
				if err := j.Settle(ctx, a); err != nil {
					t.Error(err)
				}
			}
		})
		running, fresh := attemptRow(1), attemptRow(2)
		running.Start = running.Start.Add(-time.Hour)
		noErr(t, j.Begin(ctx, running))
		noErr(t, j.Finish(ctx, middleware.JournalCall{Call: "old", Start: running.Start, Outcome: middleware.OutcomePrimary}))
		fresh.State = middleware.JournalAnswered
		noErr(t, j.Settle(ctx, fresh))
		n, err := j.Prune(ctx, time.Now().Add(-time.Minute))
		noErr(t, err)
		want(t, "removed", n, int64(1601))
		want(t, "left", texts(t, s, "SELECT call_id FROM llm_attempt ORDER BY call_id"), []string{running.Call, fresh.Call})
		want(t, "calls left", texts(t, s, "SELECT call_id FROM llm_call"), []string{running.Call})
	})
}

func TestAHundredCallsAtOnceAreJournaled(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		s := mustOpen(t, p, Config{Batch: 16})
		leaf := func(name string, step llmtest.Step) llm.Caller {
			return &llm.Deployment{Name: name, Caller: llmtest.Script(step)}
		}
		chat := llm.New(middleware.Journal(middleware.JournalConfig{Store: s.Journal(), Timeout: time.Minute})).Then(
			middleware.Fallback(middleware.FallbackConfig{Budget: middleware.RetryBudgetConfig{Capacity: 10000}},
				leaf("a", llmtest.Fail(llm.Overloaded)), leaf("b", llmtest.Text("x"))))
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				_, err := chat.Call(t.Context(), &llm.Request{
					Messages: []llm.Message{llm.User("hi")}, Labels: map[string]string{"workflow": fmt.Sprint("w", i%2)},
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		alerts, err := s.Journal().Alerts(t.Context(), time.Time{})
		noErr(t, err)
		want(t, "alerts", alerts, []Alerts{{Workflow: "w0", Fallback: 50}, {Workflow: "w1", Fallback: 50}})
		want(t, "attempts", texts(t, s, "SELECT deployment || ' ' || state || ' ' || count(*) FROM llm_attempt GROUP BY deployment, state "+
			"ORDER BY deployment"), []string{"a failed 100", "b answered 100"})
	})
}
