package llmtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// around is a stage of a function that is given the next Caller.
func around(f func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error)) llm.Stage {
	return llm.Stage{Name: "mutation", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) { return f(ctx, next, req) })
	}}
}

// outermost puts a stage around the whole chain.
func outermost(f func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error)) func(*parts) {
	return func(c *parts) { c.outer = append(c.outer, around(f)) }
}

// repeating is a stage in the place of retry that repeats once after what it is told to.
func repeating(after func(error) bool, wait func(*llm.Error) time.Duration) func(*parts) {
	return func(c *parts) {
		s := around(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err == nil || !after(err) {
				return resp, err
			}
			if d := wait(llm.AsError(err)); d > 0 {
				<-time.NewTimer(d).C
			}
			return next.Call(ctx, req)
		})
		c.again = &s
	}
}

func rateLimited(err error) bool         { return errors.Is(err, llm.RateLimited) }
func asAsked(e *llm.Error) time.Duration { return e.RetryAfter }
func atOnce(*llm.Error) time.Duration    { return 0 }
func reacting(c llm.Class, r middleware.Reaction) func(*parts) {
	return func(p *parts) { p.reactions = middleware.Reactions{c: r} }
}

// A mutation makes a chain wrong in one way, which these conditions see and say so.
type mutation struct {
	name       string
	spoil      func(*parts)
	conditions []string
	says       string
}

func mutations() []mutation {
	return slices.Concat(pacingMutations(), routeMutations(), streamMutations(), loadMutations(), classMutations(), accountMutations())
}

func pacingMutations() []mutation {
	short := []string{"429 with a short wait"}
	return []mutation{
		{"repeats after exactly the wait, with everybody else", repeating(rateLimited, asAsked), short, "came back at the same time"},
		{"repeats before the wait is over", repeating(rateLimited, atOnce), short, "was asked for"},
		{"waits for ever longer", repeating(rateLimited, func(e *llm.Error) time.Duration { return 5 * e.RetryAfter }), short, "was asked for"},
		{"repeats again and again", func(c *parts) { c.retry.Max, c.budget = 3, middleware.BudgetConfig{} },
			[]string{"503 before streaming"}, "the primary was asked 4 times"},
		{"repeats without a wait", repeating(func(err error) bool { return errors.Is(err, llm.Unavailable) }, atOnce),
			[]string{"503 before streaming"}, "followed at once"},
		{"goes beyond its attempts", func(c *parts) { c.promises.Attempts = 3 }, []string{"attempts"}, "made 4 provider calls"},
		{"goes beyond its time", func(c *parts) { c.promises.Within, c.limits = time.Second, middleware.AttemptTimeoutConfig{} },
			[]string{"6 accepts and never answers"}, "and 1s is promised"},
		{"waits out a long wait", func(c *parts) { c.approved = []llm.Class{llm.Unavailable} },
			[]string{"429 with a wait longer than the time left"}, "the backup's answer was expected"},
		{"queues what the backup could answer", func(c *parts) { c.approved = []llm.Class{llm.Unavailable} },
			[]string{"429 with a wait longer than the time left"}, "2 jobs were queued"},
	}
}

func routeMutations() []mutation {
	anywhere := middleware.Reaction{Elsewhere: middleware.Anywhere}
	return []mutation{
		{"asks twice for nothing", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			quiet := req.Clone()
			quiet.Sink = nil
			_, _ = next.Call(ctx, quiet)
			return next.Call(ctx, req)
		}), []string{"healthy"}, "with one call"},
		{"repeats to an empty account", func(c *parts) {
			c.reactions = middleware.Reactions{llm.Quota: {Again: middleware.Always, Elsewhere: middleware.Approved}}
		}, []string{"429 insufficient quota"}, "was sent 2 times to an empty account"},
		{"does not stand in where it is approved", func(c *parts) { c.promises.StandsIn = append(slices.Clone(c.approved), llm.Quota) },
			[]string{"429 insufficient quota"}, "which is approved for it, did not answer"},
		{"asks an empty account with each call", func(c *parts) { c.reactions = middleware.Reactions{llm.Quota: {Waits: true}} },
			[]string{"429 insufficient quota"}, "the next call asked again"},
		{"switches the budget silently", func(c *parts) { c.approved = append(slices.Clone(c.approved), llm.Quota) },
			[]string{"429 insufficient quota", "unapproved failures"}, "not approved for"},
		{"ignores approvals", func(c *parts) {
			c.route = false
			c.reactions = middleware.Reactions{llm.Auth: anywhere}
		}, []string{"unapproved failures"}, "for auth, which it is not approved for"},
		{"shops a refusal around", func(c *parts) {
			c.route = false
			c.reactions = middleware.Reactions{llm.Refused: anywhere}
		}, []string{"unapproved failures"}, "for refused, which it is not approved for"},
		{"calls a route that stands in for nothing", func(c *parts) {
			c.approved = []llm.Class{llm.Overloaded}
			c.promises.StandsIn = nil
			c.backup = func(primary, _, unapproved llm.Caller) []llm.Caller { return []llm.Caller{primary, unapproved} }
		}, []string{"429 insufficient quota"}, "the unapproved deployment was called"},
		{"repeats what is malformed", reacting(llm.Invalid, middleware.Reaction{Again: middleware.Always}),
			[]string{"malformed tool schema"}, "was sent 2 times"},
		{"hides the application's error", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				e := llm.CopyError(err)
				e.Class, e.Err = llm.Unavailable, nil
				return nil, e
			}
			return resp, nil
		}), []string{"malformed tool schema"}, "the application's error was expected"},
		{"runs tools again", func(c *parts) {
			c.tools = func(e *Effect) func(context.Context, string, *llm.Response) error {
				return func(ctx context.Context, turn string, _ *llm.Response) error { return e.Run(ctx, turn) }
			}
		}, []string{"time-out after a tool committed"}, "had its effect 2 times"},
		{"forgets what a tool did", func(c *parts) {
			c.tools = func(e *Effect) func(context.Context, string, *llm.Response) error {
				ran := false
				return func(ctx context.Context, turn string, _ *llm.Response) error {
					if ran {
						return nil
					}
					ran = true
					return e.Run(ctx, turn)
				}
			}
		}, []string{"time-out after a tool committed"}, "was not looked up"},
		{"sends again what acts on the world", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			harmless := req.Clone()
			harmless.ReplayUnsafe = false
			return next.Call(ctx, harmless)
		}), []string{"outcome unknown of a request that acts"}, "it was sent 3 times"},
		{"checks no answer", func(c *parts) { c.validate = false }, []string{"fallback answer without a required field"}, "was let through"},
		{"asks elsewhere what fails everywhere", func(c *parts) {
			c.route, c.promises.Long = false, false
			c.reactions = middleware.Reactions{llm.TooLong: anywhere}
		}, []string{"12 400 the context is too long"}, "what fails everywhere was answered"},
		{"returns nothing", func(c *parts) {
			c.wrap = func(llm.Caller) llm.Caller {
				return llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, nil })
			}
		}, []string{"healthy", "refusal", "circuit open", "cancel storm", "oversized input"}, "neither an answer nor an error"},
		{"sends what is too long", func(c *parts) { c.promises.Window = 100 }, []string{"oversized input"}, "larger window was expected"},
		{"sends what fits nowhere", func(c *parts) { c.promises.Window, c.promises.Long = 100, false }, []string{"oversized input"},
			"refused before it is sent"},
		{"takes a refusal for a failure", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err == nil && resp.Refused() {
				return next.Call(ctx, req)
			}
			return resp, err
		}), []string{"refusal"}, "the refusal was expected"},
	}
}

func streamMutations() []mutation {
	broken := []string{"8 the stream dies", "8 the stream ends in order before its end", "8 the stream is reset",
		"9 silent in the midst of the answer", "14 the stream is cut and the backup rejects the beginning"}
	visible := "stream failure after visible tokens"
	again := func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
		resp, err := next.Call(ctx, req)
		if err != nil && llm.AsError(err).Partial != nil {
			return next.Call(ctx, req)
		}
		return resp, err
	}
	var all []string
	for _, f := range streamFaults() {
		all = append(all, f.name)
	}
	return []mutation{
		{"gives a cut answer for a whole one", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err == nil {
				return resp, nil
			}
			if partial := llm.AsError(err).Partial; partial != nil {
				cp := *partial
				cp.Attempts = llm.AsError(err).Attempts
				return &cp, nil
			}
			return nil, err
		}), append([]string{visible}, broken...), "for a whole"},
		{"appends another answer", func(c *parts) {
			c.rests, c.queue = false, false
			outermost(again)(c)
		}, append([]string{visible}, broken[:3]...), "handed out"},
		{"keeps silent about what was shown", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				e := llm.CopyError(err)
				e.Partial = nil
				return nil, e
			}
			return resp, nil
		}), append([]string{visible}, broken...), "the error does not say so"},
		{"hands out something at the end", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil && req.Sink != nil && llm.AsError(err).Partial != nil {
				if failed := req.Sink(llm.Delta{Text: " and so on"}); failed != nil {
					return nil, failed
				}
			}
			return resp, err
		}), append([]string{visible}, broken...), "was shown"},
		{"keeps no account", func(c *parts) {
			c.wrap = func(next llm.Caller) llm.Caller {
				return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
					resp, err := next.Call(ctx, req)
					if err != nil {
						e := llm.CopyError(err)
						e.Attempts = nil
						return nil, e
					}
					resp.Attempts = nil
					return resp, nil
				})
			}
		}, all, "the account has"},
		{"asks nobody", func(c *parts) {
			c.wrap = func(llm.Caller) llm.Caller { return asksNobody }
		}, append([]string{"malformed tool schema", "caller's deadline"}, all...), ""},
		{"does not move from a silent provider", func(c *parts) {
			c.approved = slices.DeleteFunc(slices.Clone(c.approved), func(k llm.Class) bool { return k == llm.Stalled })
		}, []string{"6 accepts and never answers", "7 headers at once, the first token late"}, "approved for stalled and well"},
		{"does not move from a provider that is down", func(c *parts) { c.approved = []llm.Class{llm.Stalled} },
			[]string{"4 503 for ever", "16 the account of an answer of the backup", "503 before streaming"}, "backup"},
	}
}

// asksNobody is a chain that asks nobody.
var asksNobody = llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, llm.Invalid })

// herd is a stage that rests what is down, and then lets everybody through at once.
func herd(rest time.Duration) *llm.Stage {
	return &llm.Stage{Name: "herd", Wrap: func(next llm.Caller) llm.Caller {
		var mu sync.Mutex
		var until time.Time
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			mu.Lock()
			rests := time.Now().Before(until)
			mu.Unlock()
			if rests {
				return nil, req.Skipped(&llm.Error{Class: llm.Cooling, Message: "it rests"})
			}
			resp, err := next.Call(ctx, req)
			if errors.Is(err, llm.Unavailable) {
				mu.Lock()
				until = time.Now().Add(rest)
				mu.Unlock()
			}
			return resp, err
		})
	}}
}

func loadMutations() []mutation {
	open, storm := []string{"circuit open"}, []string{"cancel storm"}
	return []mutation{
		{"never leaves a primary alone", func(c *parts) { c.rests = false }, open, "still was not left alone"},
		{"lets everybody probe", func(c *parts) { c.rest = herd(10 * time.Second) }, open, "one probe of at most"},
		{"rests for too long", func(c *parts) { c.promises.Rest = 2 * time.Second }, open, "one probe"},
		{"leaves nobody to answer while it rests", func(c *parts) {
			c.reactions = middleware.Reactions{llm.Cooling: {}}
		}, open, "the backup is approved and answered 0 of 20"},
		{"leaves a goroutine behind for each that left", func(c *parts) {
			closed := make(chan struct{})
			c.promises.Close = sync.OnceFunc(func() { close(closed) })
			outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
				resp, err := next.Call(ctx, req)
				if errors.Is(err, context.Canceled) {
					go func() { <-closed }()
				}
				return resp, err
			})(c)
		}, storm, "stayed behind"},
		{"keeps the place of those that left", func(c *parts) {
			free := make(chan struct{}, 20)
			outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
				select {
				case free <- struct{}{}:
				default:
					return nil, llm.Exhausted
				}
				resp, err := next.Call(ctx, req)
				if !errors.Is(err, context.Canceled) {
					<-free
				}
				return resp, err
			})(c)
		}, storm, "places are still taken"},
		{"rests because callers left", func(c *parts) {
			var mu sync.Mutex
			left := 0
			outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
				mu.Lock()
				rests := left > 5
				mu.Unlock()
				if rests {
					return nil, llm.Cooling
				}
				resp, err := next.Call(ctx, req)
				if errors.Is(err, context.Canceled) {
					mu.Lock()
					left++
					mu.Unlock()
				}
				return resp, err
			})(c)
		}, storm, "it rests"},
		{"holds those that left", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if errors.Is(err, context.Canceled) {
				<-time.NewTimer(1500 * time.Millisecond).C
			}
			return resp, err
		}), storm, "was held for"},
		{"tells those that left something else", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if errors.Is(err, context.Canceled) {
				return nil, llm.Unavailable
			}
			return resp, err
		}), storm, "was told"},
		{"does not know its caller's deadline", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			return next.Call(context.WithoutCancel(ctx), req)
		}), []string{"caller's deadline"}, "and heard after"},
		{"loses the cause", func(c *parts) {
			c.queue, c.limits = false, middleware.AttemptTimeoutConfig{}
			c.promises.StandsIn, c.backup = nil, func(primary, _, _ llm.Caller) []llm.Caller { return []llm.Caller{primary} }
			outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
				resp, err := next.Call(ctx, req)
				if err != nil {
					return nil, &llm.Error{Class: llm.Unknown, Message: "failed", Attempts: llm.AsError(err).Attempts}
				}
				return resp, nil
			})(c)
		}, []string{"caller's deadline"}, "not in the chain"},
	}
}

// innermost is a stage in the place of retry, next to the model.
func innermost(f func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error)) func(*parts) {
	return func(c *parts) {
		s := around(f)
		c.again = &s
	}
}

// What may be repeated is what the table of the stages says.
func TestWhatMayBeRepeatedIsWhatTheTableSays(t *testing.T) {
	for _, f := range slices.Concat(classFailures, rarerFailures) {
		want := map[middleware.Again]int{middleware.Never: 0, middleware.Once: 1, middleware.Always: often}
		if row := middleware.DefaultReactions()[f.class]; f.again != want[row.Again] {
			t.Errorf("%v: %d, and the table says %v", f.class, f.again, row.Again)
		}
	}
}

func classMutations() (all []mutation) {
	every := []string{"every class of failure"}
	for _, class := range []llm.Class{
		llm.Auth, llm.Refused, llm.NotFound, llm.TooLong, llm.Invalid, llm.Quota,
	} {
		again := repeating(func(err error) bool { return errors.Is(err, class) }, atOnce)
		says := ", streamed: the primary was asked 2 times, and may be asked 1"
		all = append(all, mutation{"repeats " + class.String(), again, every, says},
			mutation{"repeats " + class.String() + " and has no fallback", func(c *parts) {
				again(c)
				c.promises.StandsIn, c.backup = nil, func(primary, _, _ llm.Caller) []llm.Caller { return []llm.Caller{primary} }
			}, every, says})
	}
	return append(all, []mutation{
		{"repeats what is of no use again and again", func(c *parts) {
			c.retry.Max, c.promises.Retries = 3, 3
			c.reactions = middleware.Reactions{llm.BadOutput: {Again: middleware.Always, Elsewhere: middleware.Anywhere}}
		}, every, "bad_output (empty), whole: the primary was asked 3 times, and may be asked 2"},
		{"never continues an answer", func(c *parts) {
			c.interrupt, c.validate = false, false
			c.promises.Continues, c.promises.Lacking = true, ""
		}, []string{"stream failure after visible tokens"}, "was to be continued"},
		{"waits for a while before it moves", innermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if errors.Is(err, llm.RateLimited) && llm.AsError(err).RetryAfter > 30*time.Second {
				<-time.NewTimer(2 * time.Second).C
			}
			return resp, err
		}), []string{"429 with a wait longer than the time left"}, "the call waited 2s"},
		{"calls beside too early", func(c *parts) {
			c.hedge, c.promises.Hedges = &middleware.HedgeConfig{Delay: 100 * time.Millisecond}, 500*time.Millisecond
		}, []string{slowPrimary}, "the backup was called after 100ms"},
		{"calls nobody beside", func(c *parts) { c.promises.Hedges = 100 * time.Millisecond }, []string{slowPrimary},
			"was not called beside the primary"},
		{"calls beside and does not say so", func(c *parts) { c.hedge = &middleware.HedgeConfig{Delay: 500 * time.Millisecond} },
			[]string{slowPrimary}, "beside the primary, after 500ms; if that is meant, set Promises.Hedges"},
		{"goes on with calls that nobody waits for", innermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			if req.Sink != nil {
				return next.Call(ctx, req)
			}
			type end struct {
				resp *llm.Response
				err  error
			}
			ended := make(chan end, 1)
			go func() {
				resp, err := next.Call(context.WithoutCancel(ctx), req)
				ended <- end{resp, err}
			}()
			select {
			case e := <-ended:
				return e.resp, e.err
			case <-ctx.Done():
				return nil, llm.ContextError(ctx, nil)
			}
		}), []string{"abandoned calls"}, "10 provider calls still went on"},
		{"calls again when its caller has left", outermost(func(ctx context.Context, next llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if errors.Is(err, context.Canceled) && req.Sink == nil {
				go func() { _, _ = next.Call(context.WithoutCancel(ctx), req) }()
			}
			return resp, err
		}), []string{"abandoned calls"}, "began after all callers had left"},
	}...)
}

// claiming changes what the chain answers.
func claiming(change func(*llm.Response)) func(*parts) {
	return func(c *parts) {
		c.wrap = func(next llm.Caller) llm.Caller {
			return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
				resp, err := next.Call(ctx, req)
				if err == nil {
					cp := *resp
					cp.Attempts = slices.Clone(resp.Attempts)
					change(&cp)
					resp = &cp
				}
				return resp, err
			})
		}
	}
}

func accountMutations() []mutation {
	ok, account := []string{"healthy"}, []string{"16 the account of an answer of the backup"}
	return []mutation{
		{"enters calls twice", claiming(func(r *llm.Response) { r.Attempts = append(r.Attempts, r.Attempts...) }), ok, "provider call 1 twice"},
		{"enters calls that were not made", claiming(func(r *llm.Response) {
			made := r.Attempts[0]
			made.Index = 7
			r.Attempts = append(r.Attempts, made)
		}), ok, "the account has 2 provider calls, the providers had 1"},
		{"forgets what an answer consumed", claiming(func(r *llm.Response) { r.Usage = llm.Usage{} }), ok, "the answer's usage is 0 tokens"},
		{"enters nothing consumed", claiming(func(r *llm.Response) { r.Attempts[0].Usage = llm.Usage{} }), ok, "the account has 0 tokens"},
		{"says that the primary answered", claiming(func(r *llm.Response) { r.Deployment = "primary" }), account,
			"is said to be of the deployment \"primary\", which did not answer"},
		{"enters the backup's call as the primary's", claiming(func(r *llm.Response) {
			for i := range r.Attempts {
				r.Attempts[i].Deployment = "primary"
			}
			r.Deployment = "primary"
		}), account, "calls of 1 deployments, and 2 were asked"},
		{"says that one deployment always answered", claiming(func(r *llm.Response) {
			for i := range r.Attempts {
				if r.Attempts[i].Err == nil {
					r.Attempts[i].Deployment = "gateway"
				}
			}
			r.Deployment = "gateway"
		}), []string{"circuit open"}, "answers of two providers are said to be of the deployment \"gateway\""},
	}
}

// Each condition is failed by a chain that is wrong in it, for that reason.
func TestEachConditionIsFailedByAChainThatIsWrongInIt(t *testing.T) {
	failed := map[string]bool{}
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			for _, c := range conditions() {
				if !slices.Contains(m.conditions, c.name) {
					continue
				}
				failed[c.name] = true
				wrong := soundParts()
				m.spoil(wrong)
				row, err := c.prove(t, wrong.build)
				if err != nil {
					t.Fatal(err)
				}
				if row.Verdict != Failed || !strings.Contains(strings.Join(row.Wrong, "\n"), m.says) {
					t.Errorf("%q was to be found\n%v", m.says, row.String())
				}
			}
		})
	}
	for _, c := range conditions() {
		if !failed[c.name] {
			t.Errorf("no chain is wrong in %s", c.name)
		}
	}
}
