package llmtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/modelchain/llm"
)

func stageKeepsRequest(s *stageSuite) {
	check := func(do llm.CallerFunc) {
		for _, rec := range []*Recorder{nil, {}} {
			c, _ := s.around(do)
			req, before := stageRequest(), stageRequest()
			s.call(s.Context(), c, req, rec)
			if d := cmp.Or(changed(req, before), behind(req)); d != "" {
				s.broken("the request of the caller: %s", d)
			}
		}
	}
	check(answering)
	check(failing(llm.Unavailable))
	check(breaking(llm.Interrupted))
}

func requestNotKept(s *stageSuite) {
	for _, do := range []llm.CallerFunc{answering, failing(llm.Unavailable)} {
		c, all := s.around(do)
		req, messages := s.forgotten(c)
		all.all = nil           // copies, with contexts that know the call
		Advance(24 * time.Hour) // the runtime lets go of stopped timers when their time has come
		runtime.GC()
		runtime.GC()
		if req.Value() != nil || messages.Value() != nil {
			s.broken("the call has returned and the garbage is collected, but the request or its messages are still held; " +
				"a Response or an *llm.Error may hold them too: what a stage keeps of a Response is a new one with the fields that it " +
				"needs, not a copy of the struct, which knows its call")
		}
		runtime.KeepAlive(c)
	}
}

// forgotten makes a call and keeps nothing of it.
func (s *stageSuite) forgotten(c llm.Caller) (weak.Pointer[llm.Request], weak.Pointer[llm.Message]) {
	req := stageRequest()
	kept, messages := weak.Make(req), weak.Make(&req.Messages[0])
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Call(s.Context(), req) // how it ends is the subject of other checks
	}()
	<-done
	return kept, messages
}

func requestPassedOn(s *stageSuite) {
	if s.may(MayChangeRequest) {
		return
	}
	for _, do := range []llm.CallerFunc{answering, failing(llm.Unavailable)} {
		s.bothWays(do, func(how string, _ *ended, all *calls) {
			for i, call := range all.seen() {
				if d := changed(call.req, stageRequest()); d != "" {
					s.broken("%s, call %d: %s", how, i+1, d)
				}
				if (call.req.Sink != nil) != (how == "streamed") {
					s.broken("%s, call %d has a sink: %v", how, i+1, call.req.Sink != nil)
				}
			}
		})
	}
}

func accountWhole(s *stageSuite) {
	answers := []llm.CallerFunc{answering}
	if !s.alone { // the outermost Pipeline is who owes the account of a failure
		answers = append(answers, failing(llm.Unavailable), failing(llm.Invalid), failing(llm.BadOutput), breaking(llm.Interrupted))
	}
	for _, do := range answers {
		for _, nested := range []bool{false, true} {
			for _, rec := range []*Recorder{nil, {}} {
				c, all := s.around(do)
				if nested { // a call has one account through all the chains that it passes
					c = llm.New(Pass("outer")).Then(c)
				}
				o := s.call(s.Context(), c, stageRequest(), rec)
				if rows, made := callsOfAccount(o.resp, o.err), all.madeCount(); rows != made {
					s.broken("%d attempts, and %d rows of them in the account of what left: %v", made, rows, o)
				}
			}
		}
	}
}

// callsOfAccount is the number of provider calls in the account of what left a call.
func callsOfAccount(resp *llm.Response, err error) int {
	if err != nil {
		resp = &llm.Response{Attempts: llm.AsError(err).Attempts}
	}
	return resp.Calls()
}

func gatesLifted(s *stageSuite) {
	check := func(how string, do llm.CallerFunc, panics bool) {
		c, all := s.around(do)
		if panics {
			all.before = func(context.Context, *llm.Request) { panic(s.scripted()) }
		}
		req := stageRequest().Accounted()
		s.call(s.Context(), c, req, &Recorder{})
		if left := slices.Collect(req.Gates()); len(left) > 0 {
			s.broken("%s: still in force is %T", how, left[0])
		}
	}
	check("after an answer", answering, false)
	check("after a failure", failing(llm.Unavailable), false)
	if !s.found.loose {
		check("after a panic", answering, true)
	}
}

func nilRequest(s *stageSuite) {
	c, _ := s.around(answering)
	if o := s.call(s.Context(), c, nil, nil); o.panicked != nil || o.err == nil || o.resp != nil {
		s.broken("%v", o)
	}
}

var errSink = errors.New("the reader is gone")

// handed is how many deltas a stage hands out of a whole stream.
func (s *stageSuite) handed() int {
	c, _ := s.around(answering)
	rec := &Recorder{}
	s.call(s.Context(), c, stageRequest(), rec)
	return len(rec.Deltas())
}

func sinkEnds(s *stageSuite) {
	for at := range s.handed() {
		c, all := s.around(answering)
		rec := &Recorder{Each: func(n int, _ llm.Delta) error {
			if n == at {
				return errSink
			}
			return nil
		}}
		o := s.call(s.Context(), c, stageRequest(), rec)
		if !errors.Is(o.err, errSink) || o.resp != nil {
			s.broken("the sink failed at delta %d: %v", at, o)
		}
		if n := len(rec.Deltas()); n > at+1 || all.count() > 1 {
			s.broken("the sink failed at delta %d: %d deltas and %s", at, n, times(all.count()))
		}
		for _, f := range rec.Faults() {
			s.broken("the sink failed at delta %d: %s", at, f)
		}
	}
}

func sinkPanics(s *stageSuite) {
	for at := range s.handed() {
		c, all := s.around(answering)
		rec := &Recorder{}
		rec.Each = func(n int, _ llm.Delta) error {
			if n == at && goroutine() == rec.caller { // elsewhere nobody could recover from it
				panic("the reader's own")
			}
			return nil
		}
		if o := s.call(s.Context(), c, stageRequest(), rec); o.panicked != "the reader's own" || all.count() > 1 {
			s.broken("the sink panicked at delta %d: %v, after %s", at, o, times(all.count()))
		}
	}
}

func sinkKept(s *stageSuite) {
	for _, do := range []llm.CallerFunc{
		answering, breaking(llm.Interrupted), slowly, inTurn(after(5*time.Second, failing(llm.Unavailable)), slowly),
	} {
		c, _ := s.around(do)
		rec := &Recorder{}
		s.call(s.Context(), c, stageRequest(), rec)
		Advance(time.Hour) // what comes late has come by then
		for _, f := range rec.Faults() {
			s.broken("%s", f)
		}
		s.found.loose = s.found.loose || rec.foreign()
	}
}

// slowly streams with pauses.
func slowly(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	for _, d := range stageDeltas() {
		if err := wait(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
		if req.Sink != nil {
			if err := req.Sink(d); err != nil {
				return nil, err
			}
		}
	}
	return stageAnswer(), nil
}

// breaking breaks off after three deltas.
func breaking(c llm.Class) llm.CallerFunc { return breakingAfter(3, c) }

// breakingAfter breaks off after n deltas, and says what those were.
func breakingAfter(n int, c llm.Class) llm.CallerFunc {
	return func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		if err := handOut(req, n); err != nil {
			return nil, err
		}
		e := &llm.Error{Class: c, Owner: c.Owner(), Message: "scripted", Evidence: llm.Evidence{Phase: llm.PhaseStream}}
		if req.Sink != nil {
			e.Partial = sumOf(stageDeltas()[:n])
		}
		return nil, e
	}
}

func notAfterOutput(s *stageSuite) {
	if s.may(MayContinue) {
		return
	}
	for class := range llm.Class(llm.NumClasses) {
		rec := &Recorder{}
		c, all := s.around(breaking(class))
		all.before = func(context.Context, *llm.Request) {
			if n := len(rec.Deltas()); n > 0 {
				s.broken("a call began when %d deltas had been handed out and the stream had failed with class %v", n, class)
			}
		}
		s.call(s.Context(), c, stageRequest(), rec)
	}
}

func partialSaid(s *stageSuite) {
	for class := range llm.Class(llm.NumClasses) {
		c, _ := s.around(breaking(class))
		o := s.call(s.Context(), c, stageRequest(), &Recorder{})
		handed := len(o.rec.Deltas())
		if handed == 0 || o.err == nil && s.may(MayContinue) {
			continue
		}
		if e, ok := errors.AsType[*llm.Error](o.err); !ok || e.Partial == nil || e.Commit != llm.Committed {
			s.broken("%d deltas were handed out before a failure of class %v: %v", handed, class, o)
		}
	}
}

func partialTrue(s *stageSuite) {
	for n := 1; n <= len(stageDeltas()); n++ {
		for _, class := range []llm.Class{llm.Interrupted, llm.Unavailable, llm.Invalid} {
			c, _ := s.around(breakingAfter(n, class))
			o := s.call(s.Context(), c, stageRequest(), &Recorder{})
			e, _ := errors.AsType[*llm.Error](o.err)
			if e == nil || e.Partial == nil {
				continue
			}
			told, got := written(e.Partial), written(o.rec.Response())
			switch {
			case len(o.rec.Deltas()) == 0:
				s.broken("a stream broke after %d deltas, of which none was handed out, and the error has Partial %q", n, told)
			case !s.may(MayChangeAnswer) && !strings.HasPrefix(got, told):
				s.broken("a stream broke after %d deltas; %q was handed out, and Partial is %q", n, got, told)
			}
		}
	}
}

// written is everything that is to be read in an answer. Of tool calls it is those that are whole.
func written(r *llm.Response) string {
	var b strings.Builder
	for i := range r.Parts {
		b.WriteString(r.Parts[i].Text)
	}
	return b.String() + r.Refusal
}

func describesChild(s *stageSuite) {
	c, _ := s.around(answering)
	node := llm.Describe(c)
	if _, ok := c.(llm.Describer); !ok {
		return // a chain shows for it what it wraps
	}
	names := []string{}
	for d := range node.Deployments() {
		names = append(names, d.Name)
	}
	if !slices.Contains(names, "first") {
		s.broken("the stage is around deployment %q and shows %s", "first", names)
	}
	if text := fmt.Sprint(node); node.Name == "" || !reflect.DeepEqual(text, fmt.Sprint(llm.Describe(c))) {
		s.broken("the node has the name %q, and prints as %q", node.Name, text)
	}
}
