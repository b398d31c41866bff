package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

func TestStagesOfThisPackageKeepTheContract(t *testing.T) {
	t.Run("pass", func(t *testing.T) { TestStage(t, StageConfig{New: func() llm.Stage { return Pass("pass") }}) })
	t.Run("faults", func(t *testing.T) { TestStage(t, StageConfig{New: func() llm.Stage { return Faults(FaultsConfig{}) }}) })
	t.Run("faults that delay", func(t *testing.T) {
		TestStage(t, StageConfig{New: func() llm.Stage {
			return Faults(FaultsConfig{Faults: []Fault{{At: Middle, Deltas: 1, Delay: time.Millisecond}}})
		}})
	})
	t.Run("a combinator", func(t *testing.T) {
		TestStage(t, StageConfig{Combine: func(first, _ llm.Caller) llm.Caller { return first }})
	})
}

// Stages that do what they claim.
func TestStagesThatChangeAnswersKeepTheContract(t *testing.T) {
	changing := func(change func(string) string) func() llm.Stage {
		return func() llm.Stage {
			return stageOf(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
				resp, err := next.Call(ctx, sinking(req, func(d llm.Delta) error {
					d.Text = change(d.Text)
					return req.Sink(d)
				}))
				if err != nil {
					return nil, err
				}
				if resp.Refusal != "" {
					resp.Refusal = change(resp.Refusal)
				}
				for i := range resp.Parts {
					resp.Parts[i].Text = change(resp.Parts[i].Text)
				}
				return resp, nil
			})
		}
	}
	split := func() llm.Stage {
		return stageOf(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(ctx, sinking(req, func(d llm.Delta) error {
				for ; d.Kind == llm.DeltaText && len(d.Text) > 1; d.Text = d.Text[1:] {
					if err := req.Sink(llm.Delta{Text: d.Text[:1], Index: d.Index}); err != nil {
						return err
					}
				}
				return req.Sink(d)
			}))
		})
	}
	priced := func() llm.Stage {
		return stageOf(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err == nil {
				resp.Extra = maps.Clone(resp.Extra)
				if resp.Extra == nil {
					resp.Extra = map[string]json.RawMessage{}
				}
				resp.Extra["mine"] = json.RawMessage(`{"cost":1}`)
			}
			return resp, err
		})
	}
	for name, cfg := range map[string]StageConfig{
		"in capitals":              {New: changing(strings.ToUpper), Claims: MayChangeAnswer},
		"split":                    {New: split, Claims: MayChangeAnswer},
		"split and held back":      {New: split, Claims: MayHoldBack},
		"with an extra of its own": {New: priced, Claims: MayChangeAnswer},
	} {
		t.Run(name, func(t *testing.T) { TestStage(t, cfg) })
	}
	// Without the claim exactly the rules that it is about say so, and how to mend it.
	for name, c := range map[string]struct {
		stage func() llm.Stage
		rules []string
		says  string
	}{
		"split":                    {split, []string{"stream"}, "they add up to the same: a stage that cuts deltas anew claims MayHoldBack"},
		"with an extra of its own": {priced, []string{"answer", "stream"}, "claims MayChangeAnswer"},
	} {
		t.Run("unclaimed, "+name, func(t *testing.T) {
			var broken []string
			for _, rule := range stageCases {
				var said []string
				s := &stageSuite{T: t, cfg: StageConfig{New: c.stage}, sentence: rule.sentence, found: &findings{}}
				s.errorf = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
				s.run(rule)
				if len(said) > 0 {
					broken = append(broken, rule.name)
					if !strings.Contains(said[0], c.says) {
						t.Errorf("%s: %s", rule.name, said[0])
					}
				}
			}
			if !slices.Equal(broken, c.rules) {
				t.Errorf("broken are %q, want %q", broken, c.rules)
			}
		})
	}
}

// body is the Call of a stage that is wrong.
type body func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error)

// wrong is a stage that breaks one rule.
type wrong struct {
	name string
	// body has no state; stage makes what has.
	body   body
	stage  func() llm.Stage
	claims Claims
	unlock func()
}

func (w *wrong) make() llm.Stage {
	if w.stage != nil {
		return w.stage()
	}
	return stageOf(w.body)
}

func stageOf(b body) llm.Stage {
	return llm.Stage{Name: "wrong", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			if req == nil {
				return next.Call(ctx, nil)
			}
			return b(ctx, req, next)
		})
	}}
}

// sinking is req with another sink.
func sinking(req *llm.Request, sink llm.Sink) *llm.Request {
	c := req.Clone()
	if req.Sink != nil {
		c.Sink = sink
	}
	return c
}

var made = &llm.Response{Parts: []llm.Part{llm.Text("made up")}, Stop: llm.StopEnd}

// again calls up to n times until it is answered.
func again(n int) body {
	return func(ctx context.Context, req *llm.Request, next llm.Caller) (resp *llm.Response, err error) {
		for range n {
			if resp, err = next.Call(ctx, req); err == nil || ctx.Err() != nil {
				break
			}
		}
		return resp, err
	}
}

// describing is a stage that shows something else than what it wraps.
type describing struct{ llm.Caller }

func (describing) Describe() llm.Node { return llm.Node{Name: "wrong"} }

// neverLifted is a gate.
type neverLifted struct{ llm.OpenGate }

// breaker is a stage whose state is in the wrong place, or that nobody expects to have any.
func breaker(err error, perLeaf bool) func() llm.Stage {
	return func() llm.Stage {
		var mu sync.Mutex
		shared := 0
		return llm.Stage{Name: "wrong", Wrap: func(next llm.Caller) llm.Caller {
			failures := &shared
			if perLeaf {
				failures = new(int)
			}
			return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
				mu.Lock()
				rests := *failures > 3
				mu.Unlock()
				if rests {
					return nil, err
				}
				resp, failed := next.Call(ctx, req)
				if failed != nil {
					mu.Lock()
					*failures++
					mu.Unlock()
				}
				return resp, failed
			})
		}}
	}
}

// wrongStages are, for each rule of the suite, stages that break it.
func wrongStages() map[string][]wrong {
	var locked sync.Mutex
	return map[string][]wrong{
		"answer": {{name: "loses the request id", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				return nil, err
			}
			c := *resp
			c.RequestID = ""
			return &c, nil
		}}, {name: "loses the account", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				return nil, err
			}
			c := *resp
			c.Attempts = nil
			return &c, nil
		}}},
		"stream": {{name: "loses the first delta", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			n := 0
			return next.Call(ctx, sinking(req, func(d llm.Delta) error {
				if n++; n == 1 {
					return nil
				}
				return req.Sink(d)
			}))
		}}, {name: "knows no streams", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			whole := req.Clone()
			whole.Sink = nil
			return next.Call(ctx, whole)
		}}},
		"deltas at once": {{name: "holds back", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			var held []llm.Delta
			resp, err := next.Call(ctx, sinking(req, func(d llm.Delta) error { held = append(held, d); return nil }))
			for _, d := range held {
				if err := req.Sink(d); err != nil {
					return nil, err
				}
			}
			return resp, err
		}}},
		"refusal": {{name: "fails", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if resp.Refused() {
				return nil, llm.Refused
			}
			return resp, err
		}}},
		"one call": {{name: "asks twice", claims: MayRepeat, body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			whole := req.Clone()
			whole.Sink = nil
			if resp, err := next.Call(ctx, whole); err != nil {
				return resp, err
			}
			return next.Call(ctx, req)
		}}},
		"fresh response": {{name: "keeps it", stage: func() llm.Stage {
			var mu sync.Mutex
			var kept *llm.Response
			return stageOf(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				if kept != nil {
					return kept, nil
				}
				resp, err := next.Call(ctx, req)
				kept = resp
				return resp, err
			})
		}}},
		"one result": {{name: "neither", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, _ := next.Call(ctx, req)
			return resp, nil
		}}, {name: "both", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			_, err := next.Call(ctx, req)
			return made, err
		}}},
		"failure stays": {{name: "makes it up", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				return made, nil //nolint:nilerr // what is wrong with it
			}
			return resp, nil
		}}},
		"error is found": {{name: "says only that", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				return nil, fmt.Errorf("wrong: %v", err) //nolint:errorlint // what is wrong with it
			}
			return resp, nil
		}}},
		"no repetition":  {{name: "retries", body: again(2)}},
		"closed classes": {{name: "retries everything", body: again(2), claims: MayRepeat}},
		"replay unsafe":  {{name: "retries what is not known", body: again(2), claims: MayRepeat}},
		"asked wait":     {{name: "retries at once", body: again(2), claims: MayRepeat}},
		"error untouched": {{name: "writes to it", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if e, ok := errors.AsType[*llm.Error](err); ok {
				e.RetryDenied = "wrong"
			}
			return resp, err
		}}},
		"no refusal":    {{name: "breaks the circuit", stage: breaker(&llm.Error{Class: llm.Cooling}, true)}},
		"refusal's row": {{name: "refuses without a word", stage: breaker(errors.New("no"), true), claims: MayRefuse}},
		"one at a time": {{name: "races", claims: MayRepeat, body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			whole := req.Clone()
			whole.Sink = nil
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = next.Call(ctx, whole) })
			defer wg.Wait()
			return next.Call(ctx, req)
		}}},
		"request untouched": {{name: "writes to the request", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			req.Model = "wrong"
			return next.Call(ctx, req)
		}}, {name: "writes through a clone", claims: MayChangeRequest, body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			c := req.Clone()
			c.Messages[0].Parts[0].Text = "wrong"
			return next.Call(ctx, c)
		}}, {name: "appends in place", claims: MayChangeRequest, body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			c := req.Clone()
			c.Messages = append(c.Messages, llm.User("wrong"))
			return next.Call(ctx, c)
		}}, {name: "writes to its labels", claims: MayChangeRequest, body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			req.Labels["wrong"] = "yes"
			return next.Call(ctx, req)
		}}},
		"request not kept": {{name: "keeps it", stage: func() llm.Stage {
			return llm.Stage{Name: "wrong", Wrap: func(next llm.Caller) llm.Caller { return &keeping{next: next} }}
		}}},
		"request passed on": {{name: "asks something else", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			c := req.Clone()
			c.MaxTokens = 1
			return next.Call(ctx, c)
		}}},
		"account": {{name: "derives by hand", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(ctx, &llm.Request{Model: req.Model, Messages: req.Messages, Sink: req.Sink})
		}}, {name: "detaches", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(ctx, req.Detach())
		}}},
		"gates": {{name: "never lifts", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			r := req.Accounted()
			r.Enforce(neverLifted{})
			return next.Call(ctx, r)
		}}, {name: "does not lift in a panic", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			r := req.Accounted()
			gate := r.Enforce(neverLifted{})
			resp, err := next.Call(ctx, r)
			gate.Lift()
			return resp, err
		}}},
		"nil request": {{name: "reads it", stage: func() llm.Stage {
			return llm.Stage{Name: "wrong", Wrap: func(next llm.Caller) llm.Caller {
				return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
					return next.Call(ctx, sinking(req, req.Sink))
				})
			}}
		}}},
		"sink fails": {{name: "goes on", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(ctx, sinking(req, func(d llm.Delta) error {
				_ = req.Sink(d) // what is wrong with it
				return nil
			}))
		}}, {name: "hides it", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(ctx, sinking(req, func(d llm.Delta) error {
				if req.Sink(d) != nil {
					return errors.New("something")
				}
				return nil
			}))
		}}, {name: "passes over the error of the last delta", claims: MayHoldBack, body: holdingOne}},
		"sink": {{name: "another goroutine", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(ctx, sinking(req, func(d llm.Delta) (err error) {
				var wg sync.WaitGroup
				wg.Go(func() { err = req.Sink(d) })
				wg.Wait()
				return err
			}))
		}}, {name: "late", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			if req.Sink != nil {
				time.AfterFunc(time.Minute, func() { _ = req.Sink(llm.Delta{Text: "late"}) })
			}
			return next.Call(ctx, req)
		}}},
		"sink panics": {{name: "recovers", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(ctx, sinking(req, func(d llm.Delta) (err error) {
				defer func() {
					if v := recover(); v != nil {
						err = fmt.Errorf("panic: %v", v)
					}
				}()
				return req.Sink(d)
			}))
		}}},
		"no call after output": {{name: "retries unseen", body: again(2), claims: MayRepeat}},
		"partial": {{name: "forgets it", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				e := llm.CopyError(err)
				e.Partial = nil
				return nil, e
			}
			return resp, nil
		}}},
		"partial is true": {{name: "loses the last delta", claims: MayHoldBack, body: holdingOne}, {
			name: "loses all", claims: MayHoldBack, body: holdingAll,
		}},
		"own limit": {{name: "has a limit without a cause", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return next.Call(ctx, req)
		}}},
		"cancellation": {{name: "waits it out", claims: MayRepeat, body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if after := llm.AsError(err).RetryAfter; err != nil && after > 0 {
				<-time.NewTimer(after).C
			}
			return resp, err
		}}},
		"canceled error": {{name: "blames the provider", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			resp, err := next.Call(ctx, req)
			if err != nil {
				return nil, &llm.Error{Class: llm.Unavailable, Message: "wrong"}
			}
			return resp, nil
		}}},
		"nothing after the end": {{name: "does not look", claims: MayRepeat, body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			if resp, err := next.Call(ctx, req); err == nil {
				return resp, nil
			}
			return next.Call(ctx, req)
		}}},
		"deadline": {{name: "has time of its own", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			return next.Call(ctx, req)
		}}},
		"context": {{name: "begins anew", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			own, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
			return next.Call(own, req)
		}}},
		"panic": {{name: "swallows it", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (resp *llm.Response, err error) {
			defer func() {
				if recover() != nil {
					resp = made
				}
			}()
			return next.Call(ctx, req)
		}}, {name: "stays locked", unlock: locked.Unlock, body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			locked.Lock()
			resp, err := next.Call(ctx, req)
			locked.Unlock()
			return resp, err
		}}, {name: "keeps its place", stage: func() llm.Stage {
			place := make(chan struct{}, 1)
			return stageOf(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
				place <- struct{}{}
				resp, err := next.Call(ctx, req)
				<-place
				return resp, err
			})
		}}},
		"goroutines": {{name: "leaves one", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			go func() { <-time.NewTimer(time.Hour).C }()
			return next.Call(ctx, req)
		}}, {name: "waits for nobody", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			type result struct {
				resp *llm.Response
				err  error
			}
			whole := req.Clone()
			whole.Sink = nil
			ended := make(chan result, 1)
			go func() {
				defer func() { _ = recover() }()
				resp, err := next.Call(ctx, whole)
				ended <- result{resp, err}
			}()
			select {
			case r := <-ended:
				return r.resp, r.err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}, {name: "leaves one for ever", body: func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			never := make(chan struct{})
			go func() { <-never }()
			return next.Call(ctx, req)
		}}},
		"concurrent calls": {{name: "holds a lock across the call", stage: func() llm.Stage {
			var mu sync.Mutex
			return stageOf(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				return next.Call(ctx, req)
			})
		}}, {name: "has one sink for all", stage: func() llm.Stage {
			var mu sync.Mutex
			var sink llm.Sink
			return stageOf(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
				mu.Lock()
				sink = req.Sink
				mu.Unlock()
				return next.Call(ctx, sinking(req, func(d llm.Delta) error {
					mu.Lock()
					defer mu.Unlock()
					if sink == nil {
						return nil
					}
					return sink(d)
				}))
			})
		}}},
		"describe": {{name: "shows nothing", stage: func() llm.Stage {
			return llm.Stage{Name: "wrong", Wrap: func(next llm.Caller) llm.Caller { return describing{next} }}
		}}},
		"two wraps": {{name: "has one state for all", stage: breaker(&llm.Error{Class: llm.Cooling}, false), claims: MayRefuse}},
	}
}

// holdingOne is always one delta behind, loses it where the stream breaks, and the sink's error where it does not.
func holdingOne(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
	var held *llm.Delta
	resp, err := next.Call(ctx, sinking(req, func(d llm.Delta) error {
		if held != nil {
			if err := req.Sink(*held); err != nil {
				return err
			}
		}
		held = &d
		return nil
	}))
	if held != nil && err == nil {
		_ = req.Sink(*held) // what is wrong with it
	}
	return resp, err
}

// holdingAll hands out a stream at its end, and tells of what nobody was handed.
func holdingAll(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
	var held []llm.Delta
	resp, err := next.Call(ctx, sinking(req, func(d llm.Delta) error { held = append(held, d); return nil }))
	if err != nil {
		return nil, err
	}
	for _, d := range held {
		if err := req.Sink(d); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// keeping keeps the newest request.
type keeping struct {
	next llm.Caller
	mu   sync.Mutex
	last *llm.Request
}

func (k *keeping) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	k.mu.Lock()
	k.last = req
	k.mu.Unlock()
	return k.next.Call(ctx, req)
}

// Each rule of TestStage rejects a stage that breaks it, and says so in its own sentence.
func TestTheSuiteOfStagesRejectsWhatBreaksEachRule(t *testing.T) {
	stages := wrongStages()
	for _, c := range stageCases {
		if len(stages[c.name]) == 0 {
			t.Errorf("no stage breaks the rule %q: %s", c.name, c.sentence)
		}
		for _, w := range stages[c.name] {
			t.Run(c.name+"/"+w.name, func(t *testing.T) {
				var mu sync.Mutex
				var said []string
				s := &stageSuite{
					T: t, cfg: StageConfig{New: w.make, Claims: w.claims}, sentence: c.sentence, unlock: w.unlock, found: &findings{},
				}
				s.errorf = func(format string, args ...any) {
					mu.Lock()
					defer mu.Unlock()
					said = append(said, fmt.Sprintf(format, args...))
				}
				s.run(c)
				if len(said) == 0 || !strings.HasSuffix(said[0], "the contract: "+c.sentence) {
					t.Errorf("the suite says %q", said)
				}
				if len(said) > 0 {
					t.Log(said[0])
				}
			})
		}
		delete(stages, c.name)
	}
	for name := range stages {
		t.Errorf("there are stages for a rule %q, which the suite does not have", name)
	}
}
