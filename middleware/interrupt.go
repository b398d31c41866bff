package middleware

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// InterruptConfig sets [Interrupt]. The zero value tells the caller and does no more.
type InterruptConfig struct {
	// Continue are the Callers that may go on with an answer that broke off, in order: the same deployment, another, a whole
	// fallback of them. Only deployments that declare llm.CanPrefill are called. nil: no answer is continued.
	Continue []llm.Caller
	// Most bounds the continuations of one answer. 0: as many as there are Callers.
	Most int
	// Notice is handed out as a last delta, of kind llm.DeltaNotice, when an answer broke off and was not continued, before the
	// error is returned. "": none.
	Notice string
}

// Interrupt is the stage "interrupt": it decides what the caller of a stream gets when the answer breaks off after part of
// it was handed out, where nobody may repeat or move the call any more.
//
// In any case the call fails, with what broke it: Partial is exactly what was handed out, without tool calls that are not
// complete, and Usage what was used so far, Estimated where the provider did not say. With Notice the reader is told too.
//
// With Continue another attempt goes on from the exact text so far, as the beginning of the assistant's answer. The seam is
// checked: what the continuation repeats of the text so far is taken off, if it is more than chance: all of it from 12 bytes
// on, its end from 24 bytes on or from 12 in three words, unless it repeats itself and so may be meant. The Response is the
// whole answer, Continued, with the usage of all its attempts. Nothing is continued within or after a tool call or a
// refusal, before the first word of text, for a request that is ReplayUnsafe, or without time and attempts left; and only
// what broke off by itself (Interrupted, Stalled). A rest of [Cooldowns] keeps a continuation out, save one that the break
// of this stream alone began: there its continuation is the first probe, once. A deployment that was silent, or asks for a
// wait, does not go on itself. A continuation that fails as nothing mends
// (Invalid, Auth) is the last, and one whose deployment is not asked again, such as NotFound, is that deployment's last. If
// none succeeds, the break is the caller's error, never what a continuation failed with.
//
// To begin again instead, hold the whole answer back: see [Commit].
//
// Calls without a stream, and failures before the first delta, pass through. It belongs outside fallback and inside deadline.
// A delta costs some 15 ns, and its text is kept while the call lasts. It panics on a nil Caller in Continue and a negative
// Most.
func Interrupt(cfg InterruptConfig) llm.Stage {
	for i, c := range cfg.Continue {
		if isNil(c) {
			panic(fmt.Sprintf("llm/middleware: Interrupt: Continue[%d] is nil", i))
		}
	}
	if cfg.Most < 0 {
		panic(fmt.Sprintf("llm/middleware: Interrupt: Most is %d; use 0 for as many as there are Callers", cfg.Most))
	}
	if cfg.Most == 0 {
		cfg.Most = len(cfg.Continue)
	}
	cfg.Continue = slices.Clone(cfg.Continue)
	return llm.Stage{Name: "interrupt", Config: cfg, Wrap: wrapping("Interrupt", func(next llm.Caller) llm.Caller {
		return &interrupt{next: next, cfg: cfg}
	})}
}

type interrupt struct {
	next llm.Caller
	cfg  InterruptConfig
}

func (s *interrupt) Describe() llm.Node {
	cfg := s.cfg
	cfg.Continue = nil
	n := llm.Node{Name: "interrupt", Config: cfg, Children: []llm.Node{llm.Describe(s.next)}}
	for _, c := range s.cfg.Continue {
		n.Children = append(n.Children, llm.Describe(c))
	}
	return n
}

func (s *interrupt) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil || req.Sink == nil {
		return s.next.Call(ctx, req)
	}
	t := &handedOut{Request: *req.Accounted(), next: req.Sink}
	t.Sink = t.take
	if len(s.cfg.Continue) > 0 {
		defer t.Enforce(&t.own).Lift()
	}
	resp, err := s.next.Call(ctx, &t.Request)
	if err == nil || t.n == 0 {
		return resp, err
	}
	if t.sinkErr == nil && len(s.cfg.Continue) > 0 {
		if resp, err = s.goOn(ctx, t, err); err == nil {
			return resp, nil
		}
	}
	if t.sinkErr == nil && s.cfg.Notice != "" && llm.ClassOf(err) != llm.Canceled {
		t.sinkErr = t.next(llm.Delta{Kind: llm.DeltaNotice, Text: s.cfg.Notice})
	}
	return nil, t.broken(err)
}

// handedOut is the request of a call that remembers what its caller was handed.
type handedOut struct {
	llm.Request
	own     ownBreaks
	next    llm.Sink
	n       int
	acc     llm.Accumulator
	other   bool // more than text and reasoning
	text    int  // the index of the newest text
	sinkErr error
}

func (t *handedOut) take(d llm.Delta) error {
	switch d.Kind {
	case llm.DeltaText:
		t.text = d.Index
	case llm.DeltaReasoning:
	default:
		t.other = true
	}
	t.n++
	t.acc.Add(d)
	t.sinkErr = t.next(d)
	return t.sinkErr
}

// broken is err of an answer that broke off.
func (t *handedOut) broken(err error) error {
	e := llm.CopyError(err)
	if t.sinkErr != nil && e.Class != llm.Canceled {
		e.Class, e.Owner, e.Message, e.Err = llm.Canceled, llm.OwnerUnknown, "the sink failed", t.sinkErr
	}
	e.Commit = llm.Committed
	partial := t.acc.Partial()
	if partial == nil {
		partial = &llm.Response{}
	}
	if p := e.Partial; p != nil {
		partial.Model, partial.RequestID, partial.Status, partial.Extra = p.Model, p.RequestID, p.Status, p.Extra
	}
	e.Usage = t.usage(e)
	partial.Deployment, partial.Usage = e.Deployment, e.Usage
	e.Partial = partial
	return e
}

// usage is what the attempt that broke off with e used, as far as known.
func (t *handedOut) usage(e *llm.Error) llm.Usage {
	if e.Usage == (llm.Usage{}) {
		return llm.Usage{Output: t.tokens(), Estimated: true}
	}
	return e.Usage
}

// tokens is about how many tokens of text were handed out.
func (t *handedOut) tokens() int { return (len(t.acc.Partial().Text()) + 3) / 4 }

// mayGoOn reports whether the answer that broke off with err can be continued.
func (t *handedOut) mayGoOn(ctx context.Context, err error) bool {
	return breaks(err) && !t.other && !t.ReplayUnsafe && t.sinkErr == nil && ctx.Err() == nil &&
		strings.TrimSpace(t.acc.Partial().Text()) != ""
}

// goOn has the answer continued that broke off with err. The error that it returns is the newest break.
func (s *interrupt) goOn(ctx context.Context, t *handedOut, err error) (*llm.Response, error) {
	used := t.usage(llm.AsError(err))
	left := slices.Clone(s.cfg.Continue)
	for i, n := 0, 0; n < s.cfg.Most && len(left) > 0 && t.mayGoOn(ctx, err); n++ {
		i %= len(left)
		c := left[i]
		i++
		denied := notHere(c, err)
		if denied == nil {
			denied = t.Ask(ctx, only(c), time.Now())
		}
		if denied != nil {
			t.Skipped(passedOver(c, denied))
			continue
		}
		t.own.asking(err)
		so := t.acc.Partial()
		seam := newSeam(t, so)
		resp, failure := c.Call(ctx, seam.request())
		if failure == nil {
			failure = seam.end()
		}
		switch {
		case failure == nil:
			return t.whole(so, resp, used), nil
		case t.sinkErr != nil || ctx.Err() != nil || seam.n > 0 && breaks(failure):
			err = failure
		}
		used = used.Add(llm.AsError(failure).Usage)
		switch row := defaults.of(llm.ClassOf(failure)); {
		case row.Elsewhere == Nowhere:
			return nil, err
		case row.Again == Never || llm.AsError(failure).RetryAfter > 0:
			i--
			left = slices.Delete(left, i, i+1)
		}
	}
	return nil, err
}

// notHere says why c, if it is the deployment that broke off with err, does not go on itself. nil: it may.
func notHere(c llm.Caller, err error) error {
	e, d := llm.AsError(err), only(c)
	switch {
	case d == nil || d.Name != e.Deployment:
		return nil
	case e.RetryAfter > 0:
		return &llm.Error{Class: llm.Exhausted, Message: "it asked for a wait", RetryAfter: e.RetryAfter}
	case defaults.of(e.Class).Again == Never:
		return &llm.Error{Class: llm.Exhausted, Message: "it is silent"}
	}
	return nil
}

// breaks reports whether err is that of an answer which broke off by itself.
func breaks(err error) bool {
	c := llm.ClassOf(err)
	return c == llm.Interrupted || c == llm.Stalled
}

// passedOver says that c was not asked to go on, and why.
func passedOver(c llm.Caller, denied error) *llm.Error {
	e := llm.CopyError(denied)
	e.Attempts = nil
	for d := range llm.Describe(c).Deployments() {
		e.Deployment, e.Provider, e.Model = d.Name, d.Provider, d.Model
		break
	}
	return e
}

// whole is the answer that began with so and was ended by resp.
func (t *handedOut) whole(so, resp *llm.Response, used llm.Usage) *llm.Response {
	out := *resp
	all := t.acc.Response()
	out.Parts = slices.Clone(all.Parts)
	// What a part has beyond its text no delta tells. Those of the continuation come after those that were there.
	joined := false
	at := len(so.Parts)
	for i := range resp.Parts {
		p := &resp.Parts[i]
		switch {
		case p.Kind == llm.PartText && !joined:
			joined = true // it goes on with the last text
		case at < len(out.Parts) && out.Parts[at].Kind == p.Kind:
			out.Parts[at] = *p
			at++
		default:
			out.Parts = append(out.Parts, *p)
		}
	}
	out.Refusal = resp.Refusal
	out.Usage = used.Add(resp.Usage)
	out.Continued = true
	return &out
}
