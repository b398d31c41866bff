package llmtest

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

func passesAnswer(s *stageSuite) {
	c, all := s.around(answering)
	o := s.call(s.Context(), c, stageRequest(), nil)
	if o.resp == nil || o.err != nil {
		s.broken("%v", o)
		return
	}
	if d := s.differs(o.resp, stageAnswer()); d != "" {
		s.broken("%s", d)
	}
	if o.resp.Deployment != "first" || len(o.resp.Attempts) != all.count() {
		s.broken("the Response names deployment %q and has %d attempts, after %s of %q", o.resp.Deployment, len(o.resp.Attempts),
			times(all.count()), "first")
	}
}

func passesStream(s *stageSuite) {
	c, _ := s.around(answering)
	o := s.call(s.Context(), c, stageRequest(), &Recorder{})
	if o.resp == nil || o.err != nil {
		s.broken("%v", o)
		return
	}
	got, same := o.rec.Deltas(), reflect.DeepEqual(o.rec.Deltas(), stageDeltas())
	switch {
	case s.may(MayChangeAnswer):
		same = len(got) > 0
	case s.may(MayHoldBack):
		same = reflect.DeepEqual(o.rec.Response(), sumOf(stageDeltas()))
	}
	if !same {
		s.broken("%d deltas went in, and out came %s%s", len(stageDeltas()), inJSON(reflect.ValueOf(got)), s.recut(got))
	}
	if d := s.differs(o.resp, stageAnswer()); d != "" {
		s.broken("%s", d)
	}
	for _, f := range o.rec.Faults() {
		s.broken("%s", f)
	}
}

// differs is what in an answer is not as it came, unless that may be. "": nothing.
func (s *stageSuite) differs(got, came *llm.Response) string {
	d := differs(got, came)
	if d == "" || s.may(MayChangeAnswer) {
		return ""
	}
	return d + " (a stage that changes answers claims MayChangeAnswer)"
}

// recut is the hint for who hands out the same in other pieces. "": it is not the same.
func (s *stageSuite) recut(got []llm.Delta) string {
	if !reflect.DeepEqual(sumOf(got), sumOf(stageDeltas())) {
		return ""
	}
	return " (they add up to the same: a stage that cuts deltas anew claims MayHoldBack or MayChangeAnswer)"
}

func passesAtOnce(s *stageSuite) {
	if s.may(MayHoldBack) {
		return
	}
	rec := &Recorder{}
	late := -1
	c, _ := s.around(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		for i, d := range stageDeltas() {
			before := len(rec.Deltas())
			if err := req.Sink(d); err != nil {
				return nil, err
			}
			owed := !s.may(MayChangeAnswer) || d.Kind == llm.DeltaText
			if late < 0 && owed && len(rec.Deltas()) == before {
				late = i
			}
		}
		return stageAnswer(), nil
	})
	s.call(s.Context(), c, stageRequest(), rec)
	if late >= 0 {
		s.broken("delta %d came, and nothing was handed on before the next one", late)
	}
}

func passesRefusal(s *stageSuite) {
	for _, refusal := range []*llm.Response{
		{Refusal: "I cannot help with that.", Stop: llm.StopRefusal},
		{Parts: []llm.Part{llm.Text("I")}, Stop: llm.StopFiltered},
	} {
		refusal.Model = "test-model-1"
		s.bothWays(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
			r := refusal.Clone()
			if err := llm.EmitWhole(req, r); err != nil {
				return nil, err
			}
			return r, nil
		}, func(how string, o *ended, all *calls) {
			switch {
			case o.resp == nil || o.err != nil || !o.resp.Refused() || all.count() != 1:
				s.broken("%s: a refusal became %v, after %s", how, o, times(all.count()))
			case s.may(MayChangeAnswer):
			case o.resp.Stop != refusal.Stop || o.resp.Refusal != refusal.Refusal || o.resp.Text() != refusal.Text():
				s.broken("%s: a refusal is still one, but %s", how, differs(o.resp, refusal))
			}
		})
	}
}

func oneCall(s *stageSuite) {
	s.bothWays(answering, func(how string, o *ended, all *calls) {
		if all.count() != 1 || o.err != nil {
			s.broken("%s: %s, %v", how, times(all.count()), o)
		}
	})
}

func freshResponse(s *stageSuite) {
	c, _ := s.around(answering)
	first := s.call(s.Context(), c, stageRequest(), nil)
	if first.resp == nil {
		s.broken("%v", first)
		return
	}
	const mark = "changed by the caller"
	first.resp.RequestID = mark
	for i := range first.resp.Parts {
		first.resp.Parts[i].Text = mark
	}
	if first.resp.Extra != nil {
		first.resp.Extra[mark] = nil
	}
	second := s.call(s.Context(), c, stageRequest(), nil)
	switch {
	case second.resp == nil:
		s.broken("of two calls the second one: %v", second)
	case second.resp == first.resp || strings.Contains(inJSON(reflect.ValueOf(second.resp)), mark):
		s.broken("the Response of one call was changed, and the next call returned it: %v", second)
	}
}

func oneResult(s *stageSuite) {
	check := func(how string, o *ended) {
		if o.panicked != nil || o.exited || (o.resp == nil) == (o.err == nil) {
			s.broken("%s: %v", how, o)
		}
	}
	s.bothWays(answering, func(how string, o *ended, _ *calls) { check(how, o) })
	s.eachFailure(func(c llm.Class, how string, o *ended, _ *calls) { check(c.String()+", "+how, o) })
}

func failureStays(s *stageSuite) {
	if s.may(MayReplaceAnswer) {
		return
	}
	s.eachFailure(func(c llm.Class, how string, o *ended, all *calls) {
		if o.err == nil {
			s.broken("%s: a failure of class %v became %v, after %s", how, c, o, times(all.count()))
		}
	})
}

var errPlain = errors.New("a failure of no class")

func errorFound(s *stageSuite) {
	check := func(how string, o *ended, cause error) {
		if o.err == nil {
			return
		}
		if e, ok := errors.AsType[*llm.Error](o.err); (!ok || e == nil) && !errors.Is(o.err, cause) {
			s.broken("%s: what leaves is %T: %v", how, o.err, o.err)
		}
	}
	s.eachFailure(func(c llm.Class, how string, o *ended, _ *calls) { check(how, o, c) })
	// One that is no *llm.Error, of a Caller that is no Deployment.
	plain := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, errPlain })
	stage := s.stage((&calls{}).leaf("second", plain))
	o := s.call(s.Context(), s.wrap(stage, plain), stageRequest(), nil)
	check("whole", o, errPlain)
}

func notRepeated(s *stageSuite) {
	if s.may(MayRepeat) {
		return
	}
	s.eachFailure(func(c llm.Class, how string, _ *ended, all *calls) {
		if all.count() > 1 {
			s.broken("%s: %s after a failure of class %v", how, times(all.count()), c)
		}
	})
}

func closedClasses(s *stageSuite) {
	closed := []llm.Class{llm.Invalid, llm.Auth, llm.Refused}
	s.eachFailure(func(c llm.Class, how string, _ *ended, all *calls) {
		if slices.Contains(closed, c) && all.count() > 1 {
			s.broken("%s: %s of what failed with class %v", how, times(all.count()), c)
		}
	})
	// Of class Canceled is what fails when the caller has left.
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	c, all := s.around(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		cancel()
		return nil, context.Cause(ctx)
	})
	if s.call(ctx, c, stageRequest(), nil); all.count() > 1 {
		s.broken("%s although the caller left during the first", times(all.count()))
	}
}

func replayUnsafe(s *stageSuite) {
	for class := range llm.Class(llm.NumClasses) {
		for _, commit := range []llm.CommitState{llm.CommitUnknown, llm.Committed} {
			c, all := s.around(func(context.Context, *llm.Request) (*llm.Response, error) {
				return nil, &llm.Error{Class: class, Commit: commit, Message: "scripted"}
			})
			req := stageRequest()
			req.ReplayUnsafe = true
			if s.call(s.Context(), c, req, nil); all.count() > 1 {
				s.broken("%s although the first failed with class %v and commit %v", times(all.count()), class, commit)
			}
		}
	}
}

func askedWait(s *stageSuite) {
	const asked = 20 * time.Second
	for _, class := range []llm.Class{llm.RateLimited, llm.Overloaded, llm.Unavailable} {
		s.bothWays(func(context.Context, *llm.Request) (*llm.Response, error) {
			return nil, &llm.Error{Class: class, Owner: class.Owner(), RetryAfter: asked, Message: "scripted"}
		}, func(how string, _ *ended, all *calls) {
			last := map[string]time.Time{}
			for i, call := range all.seen() {
				if before, ok := last[call.leaf]; ok && call.at.Sub(before) < asked {
					s.broken("%s: call %d of %q came %v after it had failed with class %v and asked for %v", how, i+1, call.leaf,
						call.at.Sub(before), class, asked)
				}
				last[call.leaf] = call.at
			}
		})
	}
}

func errorUntouched(s *stageSuite) {
	for class := range llm.Class(llm.NumClasses) {
		for _, rec := range []*Recorder{nil, {}} {
			shared := &llm.Error{Class: class, Owner: class.Owner(), Message: "scripted", RetryAfter: time.Second}
			was := *shared
			fails := llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) { return nil, shared })
			c := s.wrap(s.stage((&calls{}).leaf("second", fails)), fails)
			if s.call(s.Context(), c, stageRequest(), rec); !reflect.DeepEqual(*shared, was) {
				s.broken("an error of class %v was %+v and has become %+v", class, was, *shared)
			}
		}
	}
}

// manyFailures is how often a stage is called in vain before it must call on, or may refuse to.
const manyFailures = 12

func notRefused(s *stageSuite) {
	if s.may(MayRefuse) {
		return
	}
	for _, class := range []llm.Class{llm.Unavailable, llm.RateLimited, llm.Quota, llm.Auth} {
		c, all := s.around(failing(class))
		for i := range manyFailures {
			before := all.count()
			s.call(s.Context(), c, stageRequest(), nil)
			if all.count() == before {
				s.broken("call %d was refused after failures of class %v", i+1, class)
				break
			}
		}
	}
}

func refusedRow(s *stageSuite) {
	for _, class := range []llm.Class{llm.Unavailable, llm.RateLimited, llm.Quota, llm.Auth} {
		c, all := s.around(failing(class))
		for i := range manyFailures {
			before := all.count()
			o := s.call(s.Context(), c, stageRequest(), nil)
			if all.count() > before || o.err == nil {
				continue
			}
			e, _ := errors.AsType[*llm.Error](o.err)
			if e == nil || e.Class == llm.Unknown || !s.alone && len(e.Attempts) == 0 {
				s.broken("call %d was refused after failures of class %v, with %v", i+1, class, o.err)
				break
			}
		}
	}
}

func oneAtATime(s *stageSuite) {
	if s.may(MayCallBeside) {
		return
	}
	s.bothWays(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		return nil, cmp.Or[error](wait(ctx, 20*time.Second), llm.Unavailable)
	}, func(how string, _ *ended, all *calls) {
		if all.most > 1 {
			s.broken("%s: %d calls at once", how, all.most)
		}
	})
}
