package tools_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tools"
)

// failing makes a tool act on w and return err, as long as err is not nil.
func failing(w *world, err *error) func(*tools.Tool) {
	return func(tl *tools.Tool) {
		tl.Run = func(_ context.Context, c tools.Call) (tools.Result, error) {
			r := w.act(c)
			return r, *err
		}
	}
}

func TestAnUnkeyedToolInDoubtIsNotRunAgain(t *testing.T) {
	for _, done := range []bool{true, false} {
		t.Run(fmt.Sprint("found done: ", done), func(t *testing.T) {
			var w world
			fails := errors.New("connection reset")
			e := executor(w.tool("pay", tools.Unkeyed, failing(&w, &fails)))
			d := doubt(t, e, "t", asks("pay"))
			if d.Again || d.Turn != "t" || d.Tool != "pay" || !errors.Is(d, fails) || d.Result != nil {
				t.Errorf("the doubt is %+v", d)
			}
			for range 3 {
				if again := doubt(t, e, "t", asks("pay")); again.Key != d.Key || again.Reason != d.Reason {
					t.Errorf("repeated, the doubt is %+v", again)
				}
			}
			if w.count() != 1 {
				t.Fatalf("%d runs", w.count())
			}
			fails = nil
			if done {
				if err := e.MarkDone(t.Context(), d.Key, tools.Text("paid")); err != nil {
					t.Fatal(err)
				}
				want(t, results(t, e, "t", asks("pay")), "paid")
				return
			}
			if err := e.MarkNotDone(t.Context(), d.Key); err != nil {
				t.Fatal(err)
			}
			want(t, results(t, e, "t", asks("pay")), "done 2")
		})
	}
}

func TestAKeyedToolInDoubtIsRunAgainWithItsKey(t *testing.T) {
	var w world
	fails := errors.New("connection reset")
	e := executor(w.tool("pay", tools.Keyed, failing(&w, &fails)))
	if d := doubt(t, e, "t", asks("pay")); !d.Again || !strings.Contains(d.Error(), "run the turn again") {
		t.Errorf("the doubt is %+v", d)
	}
	// That this try did nothing says nothing of the first one.
	fails = fmt.Errorf("%w: connection refused", tools.ErrNotDone)
	if d := doubt(t, e, "t", asks("pay")); d.Reason != "it ended without a result" {
		t.Errorf("the doubt is %+v", d)
	}
	fails = nil
	want(t, results(t, e, "t", asks("pay")), "done 3")
	if keys := slices.Compact(w.keys); len(keys) != 1 || len(keys[0]) != 64 {
		t.Errorf("the keys are %q", keys)
	}
}

func TestReconcileDecides(t *testing.T) {
	for _, effect := range []tools.Effect{tools.Unkeyed, tools.Keyed} {
		t.Run(effect.String(), func(t *testing.T) {
			var w world
			fails, asked := errors.New("connection reset"), 0
			verdict, found := errors.New("the ledger is down"), tools.Result{}
			e := executor(w.tool("pay", effect, failing(&w, &fails), func(tl *tools.Tool) {
				tl.Reconcile = func(_ context.Context, c tools.Call) (tools.Result, error) {
					asked++
					if c.Key != w.keys[0] || string(c.Args) != `{"n":1}` {
						t.Errorf("Reconcile was asked for %+v", c)
					}
					return found, verdict
				}
			}))
			resp := asks(`pay {"n":1}`)
			if d := doubt(t, e, "t", resp); !d.Again || asked != 0 {
				t.Errorf("the doubt is %+v, asked %d times", d, asked)
			}
			fails = nil
			for range 2 { // unknown
				if d := doubt(t, e, "t", resp); !strings.HasSuffix(d.Reason, "Reconcile cannot tell") || !errors.Is(d, verdict) {
					t.Errorf("the doubt is %+v", d)
				}
			}
			if w.count() != 1 || asked != 2 {
				t.Fatalf("%d runs, asked %d times", w.count(), asked)
			}
			if effect == tools.Keyed {
				verdict = fmt.Errorf("no such payment: %w", tools.ErrNotDone)
				want(t, results(t, e, "t", resp), "done 2")
				return
			}
			verdict, found = nil, tools.Text("found it")
			want(t, results(t, e, "t", resp), "found it")
			want(t, results(t, e, "t", resp), "found it")
			if w.count() != 1 || asked != 3 {
				t.Errorf("%d runs, asked %d times", w.count(), asked)
			}
		})
	}
}

func TestWhatWasNotDoneCanBeRunAgain(t *testing.T) {
	var w world
	fails := fmt.Errorf("%w: %w", tools.ErrNotDone, llm.Unavailable)
	e := executor(w.tool("pay", tools.Unkeyed, failing(&w, &fails)))
	_, err := e.Run(t.Context(), "t", asks("pay"))
	certain(t, err, llm.Unavailable)
	fails = nil
	want(t, results(t, e, "t", asks("pay")), "done 2")
}

func TestACallerThatLeavesMayHaveLeftAnEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		e := executor(w.tool("pay", tools.Unkeyed, func(tl *tools.Tool) {
			tl.Run = func(ctx context.Context, c tools.Call) (tools.Result, error) {
				if c.Turn == "stubborn" { // it notices too late, and is done
					wait(context.WithoutCancel(ctx), time.Minute)
					return w.act(c), nil
				}
				wait(ctx, time.Minute)
				return tools.Result{}, ctx.Err()
			}
			tl.Timeout = time.Hour
		}))
		for _, turn := range []string{"polite", "stubborn"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := e.Run(ctx, turn, asks("pay"))
			cancel()
			if turn == "stubborn" {
				if err != nil {
					t.Errorf("a tool that was done: %v", err)
				}
				want(t, results(t, e, turn, asks("pay")), "done 1")
				continue
			}
			if d := inDoubt(t, err); d.Reason != "the caller left while it ran" || !errors.Is(d, context.DeadlineExceeded) {
				t.Errorf("the doubt is %+v", d)
			}
		}
		// Before the effect it is certain.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := e.Run(ctx, "early", asks("pay"))
		certain(t, err, llm.Canceled)
	})
}

func TestTimeoutOfATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		slow := func(tl *tools.Tool) {
			tl.Timeout = time.Second
			tl.Run = func(ctx context.Context, _ tools.Call) (tools.Result, error) {
				wait(ctx, time.Minute)
				return tools.Result{}, ctx.Err()
			}
		}
		e := executor(w.tool("pay", tools.Keyed, slow), w.tool("look", tools.ReadOnly, slow))
		began := time.Now()
		d := doubt(t, e, "t", asks("pay"))
		if d.Reason != "it ran out of time" || time.Since(began) != time.Second {
			t.Errorf("the doubt is %+v, after %v", d, time.Since(began))
		}
		_, err := e.Run(t.Context(), "t", asks("look"))
		certain(t, err, llm.Stalled)
	})
}

func TestOneOfTwoRunsTheOtherGetsItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		store := tools.NewMemory()
		slow := func(tl *tools.Tool) {
			tl.Timeout = time.Hour
			tl.Run = func(ctx context.Context, c tools.Call) (tools.Result, error) {
				wait(ctx, 5*time.Minute) // ten leases
				return w.act(c), nil
			}
		}
		process := func(patience time.Duration) *tools.Executor {
			return tools.New(tools.Config{Store: store, Owner: "process", Wait: patience, Tools: []tools.Tool{w.tool("pay", tools.Unkeyed, slow)}})
		}
		first := make(chan []string)
		go func() { first <- results(t, process(0), "t", asks("pay")) }()
		synctest.Wait()

		_, err := process(time.Second).Run(t.Context(), "t", asks("pay"))
		certain(t, err, llm.Exhausted)
		if busy, ok := errors.AsType[*tools.BusyError](err); !ok || !strings.HasPrefix(busy.Owner, "process#") ||
			!strings.Contains(err.Error(), "pay is being run by process#") {
			t.Errorf("the error is %v", err)
		}
		for class, begin := range map[llm.Class]func() (context.Context, context.CancelFunc){
			llm.Exhausted: func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Second) },
			llm.Canceled: func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			},
		} {
			ctx, cancel := begin()
			_, err := process(0).Run(ctx, "t", asks("pay"))
			cancel()
			certain(t, err, class)
			if _, ok := errors.AsType[*tools.BusyError](err); !ok {
				t.Errorf("the error is %v", err)
			}
		}

		second := results(t, process(0), "t", asks("pay"))
		want(t, second, "done 1")
		want(t, <-first, "done 1")
	})
}

func TestALeaseThatCannotBeRenewedEndsTheTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		store := &flaky{Store: tools.NewMemory()}
		var ended time.Duration
		e := tools.New(tools.Config{Store: store, Lease: 30 * time.Second, Tools: []tools.Tool{w.tool("pay", tools.Unkeyed, func(tl *tools.Tool) {
			tl.Timeout = time.Hour
			tl.Run = func(ctx context.Context, c tools.Call) (tools.Result, error) {
				began := time.Now()
				store.down.Store(true)
				wait(ctx, time.Minute)
				ended = time.Since(began)
				store.down.Store(false)
				return tools.Result{}, ctx.Err()
			}
		})}})
		d := doubt(t, e, "t", asks("pay"))
		if ended == 0 || ended > 30*time.Second || !errors.Is(d, tools.ErrLost) {
			t.Errorf("the tool was ended after %v: %v", ended, d)
		}
	})
}

func TestARecordThatWasTakenOverIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w world
		store := tools.NewMemory()
		take := func(result string) func(*tools.Tool) {
			return func(tl *tools.Tool) {
				tl.Run = func(ctx context.Context, c tools.Call) (tools.Result, error) {
					// A process that hung: somebody else takes over once its lease is over.
					r, err := store.Get(ctx, c.Key)
					if err != nil {
						t.Error(err)
					}
					if err := store.Move(ctx, tools.Move{Key: c.Key, Owner: r.Owner, To: tools.Started}); err != nil {
						t.Error(err)
					}
					if _, err := store.Claim(ctx, tools.Record{Key: c.Key, Owner: "other"}, time.Hour); err != nil {
						t.Error(err)
					}
					if result != "" {
						if err := store.Move(ctx, tools.Move{Key: c.Key, Owner: "other", To: tools.Committed, Result: []byte(result)}); err != nil {
							t.Error(err)
						}
					}
					return w.act(c), nil
				}
			}
		}
		e := tools.New(tools.Config{Store: store, Tools: []tools.Tool{
			w.tool("a", tools.Keyed, take(`{"Parts":[{"Kind":"text","Text":"theirs"}]}`)), w.tool("b", tools.Keyed, take("")),
			w.tool("c", tools.Keyed, take("no JSON")),
		}})
		want(t, results(t, e, "t", asks("a")), "theirs")
		if d := doubt(t, e, "t", asks("b")); d.Result == nil || !strings.Contains(d.Reason, "taken over") {
			t.Errorf("the doubt is %+v", d)
		}
		_, err := e.Run(t.Context(), "t", asks("c"))
		if le := llm.AsError(err); le.Commit != llm.Committed || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("the error is %v", err)
		}
	})
}
