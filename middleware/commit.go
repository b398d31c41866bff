package middleware

import (
	"context"
	"fmt"
	"time"

	"github.com/modelchain/llm"
)

// CommitConfig sets [Commit]. The zero value as a whole stands for 16 Deltas. What is set opens the window as soon as one
// of it is reached; what is 0 does not count.
type CommitConfig struct {
	// Deltas is how many deltas are held back: the window opens with the last of them.
	Deltas int
	// Bytes is how many bytes of text and tool arguments are held back.
	Bytes int
	// Wait is how long after the first delta the window opens, with the first delta that comes then: a stream that is silent
	// meanwhile stays held back, so that its silence can still be mended.
	Wait time.Duration
	// Whole holds back the whole answer. It goes with none of the others.
	Whole bool
}

// Commit is the stage "commit", the commit window: it holds back the opening of a stream, so that a failure within it has
// been seen by nobody and may be repeated or moved by the stages outside. Such a failure has the class of what broke the
// stream, and no Partial.
//
// All kinds of deltas are held back, reasoning too, and handed out in their order when the window opens; from then on deltas
// pass through. With Whole a break at any point leads to a new answer from the beginning, and the reader sees nothing until
// the answer is there. The time to the first token grows by what the model needs to fill the window, 16 deltas are some 0.3 s
// at 50 tokens a second; a delta held back costs about 50 ns and its memory, an open window 2 to 3 ns a delta.
//
// Calls without a stream pass through. It belongs inside retry and fallback, around attempt_timeout; the limits on an attempt
// go on while deltas are held back. A call that ends while its reader takes what was held is handed no more of it. It never
// changes, joins or drops a delta of an answer that is given. It panics on negative settings, and on Whole together with
// others.
func Commit(cfg CommitConfig) llm.Stage {
	switch {
	case cfg.Deltas < 0 || cfg.Bytes < 0 || cfg.Wait < 0:
		panic(fmt.Sprintf("llm/middleware: Commit: Deltas %d, Bytes %d, Wait %v: use 0 for what does not count", cfg.Deltas, cfg.Bytes,
			cfg.Wait))
	case cfg.Whole && cfg != CommitConfig{Whole: true}:
		panic("llm/middleware: Commit: Whole holds everything back; leave Deltas, Bytes and Wait at 0")
	case cfg == CommitConfig{}:
		cfg.Deltas = 16
	}
	return llm.Stage{Name: "commit", Config: cfg, Wrap: wrapping("Commit", func(next llm.Caller) llm.Caller {
		return &commit{next: next, cfg: cfg}
	})}
}

type commit struct {
	next llm.Caller
	cfg  CommitConfig
}

func (s *commit) Describe() llm.Node {
	return llm.Node{Name: "commit", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *commit) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil || req.Sink == nil {
		return s.next.Call(ctx, req)
	}
	w := &window{Request: *req, ctx: ctx, next: req.Sink, cfg: &s.cfg}
	w.Sink = w.take
	resp, err := s.next.Call(ctx, &w.Request)
	switch {
	case err != nil && !w.begun:
		return nil, unseen(err)
	case err != nil && w.held != nil:
		e := llm.CopyError(err)
		e.Partial = w.partial(e.Partial)
		return resp, e
	case err != nil || resp == nil || w.open:
		return resp, err
	}
	var e *llm.Error
	if err := w.flush(); err != nil {
		e = &llm.Error{Class: llm.Canceled, Message: "the sink failed", Err: err}
	} else if w.open {
		return resp, nil
	} else {
		e = llm.ContextError(ctx, nil)
	}
	e.Commit, e.Deployment, e.Model, e.RequestID, e.Usage = llm.Committed, resp.Deployment, resp.Model, resp.RequestID, resp.Usage
	if w.begun {
		e.Partial = w.partial(resp)
	}
	return nil, e
}

// window is the request of a call whose opening is held back.
type window struct {
	llm.Request
	ctx   context.Context //nolint:containedctx // a window is not kept beyond its call
	next  llm.Sink
	cfg   *CommitConfig
	begun bool // some of what was held is handed out
	open  bool // nothing is held any more
	held  []llm.Delta
	out   int // how many of held are handed out
	bytes int
	first time.Time
}

func (w *window) take(d llm.Delta) error {
	if w.open {
		return w.next(d)
	}
	w.held = append(w.held, d)
	w.bytes += sizeOf(d)
	if !w.begun && !w.isFull() {
		return nil
	}
	return w.flush()
}

func sizeOf(d llm.Delta) int {
	if d.Call == nil {
		return len(d.Text)
	}
	return len(d.Text) + len(d.Call.Arguments)
}

func (w *window) isFull() bool {
	c := w.cfg
	if c.Deltas > 0 && len(w.held) >= c.Deltas || c.Bytes > 0 && w.bytes >= c.Bytes {
		return true
	}
	if c.Wait == 0 {
		return false
	}
	if w.first.IsZero() {
		w.first = time.Now()
	}
	return time.Since(w.first) >= c.Wait
}

// flush hands out what is held, while the call has time: a slow reader must not keep it beyond its end. What is left then
// stays held, for a model that comes to its end in time.
func (w *window) flush() error {
	for w.out < len(w.held) {
		if w.ctx.Err() != nil {
			return nil //nolint:nilerr // who waits for the call learns it from the context
		}
		w.begun = true
		w.out++
		if err := w.next(w.held[w.out-1]); err != nil {
			w.open = true
			return err
		}
	}
	w.begun, w.open, w.held = true, true, nil
	return nil
}

// partial is what was handed out of a window that never opened whole, of an answer of which the model says that it is so.
func (w *window) partial(so *llm.Response) *llm.Response {
	var acc llm.Accumulator
	for _, d := range w.held[:w.out] {
		acc.Add(d)
	}
	out := acc.Partial()
	if out == nil {
		out = &llm.Response{}
	}
	if so != nil {
		out.Deployment, out.Model, out.RequestID, out.Status, out.Usage = so.Deployment, so.Model, so.RequestID, so.Status, so.Usage
	}
	return out
}

// unseen is err of an attempt whose output nobody was handed. A deployment says that the stream broke, which is true for
// what it handed out; here what broke it decides.
func unseen(err error) error {
	e := llm.CopyError(err)
	if cause, ok := e.Err.(*llm.Error); ok && cause != nil && e.Class == llm.Interrupted { //nolint:errorlint // its own cause alone
		own := *cause
		own.Deployment, own.Provider, own.Model, own.RequestID = e.Deployment, e.Provider, e.Model, e.RequestID
		own.Commit, own.Usage, own.Attempts = e.Commit, e.Usage, e.Attempts
		if own.Evidence.Status == 0 {
			own.Evidence.Status = e.Evidence.Status
		}
		e = &own
	}
	e.Partial = nil
	return e
}
