package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// hedgeWorld is some models that do something else each time, and what there is to count of them.
type hedgeWorld struct {
	mu sync.Mutex // of what follows, while models run
	*rand.Rand
	fails  bool         // some calls fail, panic or break
	active atomic.Int32 // calls under way
	made   atomic.Int32
	beside atomic.Int32 // calls begun beside another
}

// step is what a model does next. Its words begin with its name.
func (w *hedgeWorld) step(name string) llmtest.Step {
	s := llmtest.Step{Delay: time.Duration(w.IntN(40)) * 100 * time.Millisecond, Gap: time.Duration(w.IntN(3)) * 300 * time.Millisecond}
	for i := range 1 + w.IntN(5) {
		s.Deltas = append(s.Deltas, llm.Delta{Text: fmt.Sprintf("%s%d ", name, i)})
	}
	if !w.fails {
		return s
	}
	switch w.IntN(12) {
	case 0, 1, 2:
		s.Deltas, s.Err = nil, []error{llm.Unavailable, llm.RateLimited, llm.Invalid, llm.Stalled}[w.IntN(4)]
	case 3:
		s.Err = llm.Unavailable // in the middle
	case 4:
		s.Hang, s.Deltas = true, nil
	case 5:
		s.Panic = "boom"
	}
	return s
}

// model counts, and now and then it ignores that its context has ended.
func (w *hedgeWorld) model(name string) llm.Caller {
	return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		w.made.Add(1)
		if w.active.Add(1) > 1 {
			w.beside.Add(1)
		}
		defer w.active.Add(-1)
		w.mu.Lock()
		s, stubborn := w.step(name), w.IntN(10) == 0
		w.mu.Unlock()
		if stubborn && !s.Hang {
			ctx = context.WithoutCancel(ctx)
		}
		return llmtest.Script(s).Call(ctx, req)
	})
}

func TestHedgeRandomCallsHandOutExactlyOneAnswer(t *testing.T) {
	const calls = 100
	answered, hedged := 0, 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			w := &hedgeWorld{Rand: rand.New(rand.NewPCG(seed, 1)), fails: seed%2 == 0} //nolint:gosec // reproducible
			cfg := middleware.HedgeConfig{Delay: time.Duration(1+w.IntN(20)) * 100 * time.Millisecond, Share: 0.3}
			if seed%3 == 0 {
				cfg = middleware.HedgeConfig{Share: 0.3}
			}
			callers := []llm.Caller{fallbackDep("a", w.model("a")), fallbackDep("b", w.model("b")), fallbackDep("c", w.model("c"))}
			chat := llm.New().Then(middleware.Hedge(cfg, callers[:2+w.IntN(2)]...))
			for i := range calls {
				w.made.Store(0)
				if w.call(t, fmt.Sprintf("seed %d, call %d", seed, i), chat) {
					answered++
				}
			}
			if n := int(w.beside.Load()); !w.fails && n > 10+calls*3/10 {
				t.Errorf("seed %d: %d of %d calls were hedged with a share of 0.3", seed, n, calls)
			}
			hedged += int(w.beside.Load())
		})
	}
	if answered < 60*calls/2 || hedged < 60*calls/20 {
		t.Errorf("%d of %d calls were answered, %d attempts made beside others: the models do not do what they are for", answered, 60*calls, hedged)
	}
}

// call makes one call and says whether it was answered.
func (w *hedgeWorld) call(t *testing.T, name string, chat llm.Caller) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var left atomic.Bool
	if w.IntN(8) == 0 {
		defer time.AfterFunc(time.Duration(w.IntN(50))*100*time.Millisecond, func() { left.Store(true); cancel() }).Stop()
	}
	var text strings.Builder
	full, full2, n, over := errors.New("full"), w.IntN(10) == 0, 0, false
	req := fallbackAsk()
	req.MaxAttempts = w.IntN(4)
	stream := w.IntN(4) > 0
	if stream {
		req.Sink = func(d llm.Delta) error {
			if over {
				t.Errorf("%s: %q after the call", name, d.Text)
			}
			if n++; full2 && n == 2 {
				return full
			}
			text.WriteString(d.Text)
			return nil
		}
	}
	resp, err := chat.Call(ctx, req)
	if over = true; w.active.Load() != 0 {
		t.Errorf("%s: %d calls of models outlived it", name, w.active.Load())
	}
	got, account := text.String(), []llm.Attempt(nil)
	if err == nil {
		account = resp.Attempts
		if stream && got != resp.Text() || !hedgeIsWhole(resp.Text(), resp.Deployment) {
			t.Errorf("%s: streamed %q, answered %q, of %s", name, got, resp.Text(), resp.Deployment)
		}
	} else {
		e := llm.AsError(err)
		account = e.Attempts
		switch {
		case got != "" && !hedgeIsWhole(got, got[:1]):
			t.Errorf("%s: streamed %q before %v", name, got, err)
		case (got != "") != (e.Partial != nil):
			t.Errorf("%s: streamed %q, but Partial is %v", name, got, e.Partial)
		case left.Load() && e.Class != llm.Canceled && !w.fails:
			t.Errorf("%s: its caller left, and got %v", name, err)
		}
	}
	if made := int(w.made.Load()); made != hedgeMade(account) || req.MaxAttempts > 0 && made > req.MaxAttempts {
		t.Errorf("%s: %d calls of models, %d of %d rows", name, made, hedgeMade(account), req.MaxAttempts)
	}
	return err == nil
}

// hedgeIsWhole reports whether text is the first words of a model, in order.
func hedgeIsWhole(text, name string) bool {
	for i, word := range strings.Fields(text) {
		if word != fmt.Sprintf("%s%d", name, i) {
			return false
		}
	}
	return text != ""
}

func hedgeMade(rows []llm.Attempt) (n int) {
	for i := range rows {
		if rows[i].Skipped == "" {
			n++
		}
	}
	return n
}
