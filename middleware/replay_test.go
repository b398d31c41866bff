package middleware_test

import (
	"testing"
	"testing/synctest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// What a commit window held back nobody was handed, though the row of the attempt tells of it.
func TestReplayKnowsThatWhatWasFollowedByAnAttemptWasHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := llmtest.Script(llmtest.Step{Deltas: words(2), Err: llm.Unavailable}, llmtest.Step{Deltas: words(2), Err: llm.NotFound},
			llmtest.Text("never"))
		other := llmtest.Script(llmtest.Text("ok"))
		stages := llm.New(middleware.Retry(middleware.RetryConfig{}), middleware.Commit(middleware.CommitConfig{}))
		req := fallbackAsk()
		req.Sink = func(llm.Delta) error { return nil }
		chat := llm.New().Then(fallbackTo(stages.Then(fallbackDep("a", model)), stages.Then(fallbackDep("b", other))))
		resp, err := chat.Call(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		state := middleware.State{
			Left: middleware.NoLimit(), Retry: middleware.RetryOption{Left: 2}, Routes: []middleware.RouteOption{{Name: "a"}, {Name: "b"}},
		}
		got := middleware.Replay(state, resp.Attempts)
		if len(got) != 2 || got[0].Action != middleware.ActionRetry || got[1].Action != middleware.ActionFallback ||
			got[1].NoRetry != middleware.ReasonNotHere {
			t.Errorf("a was repeated and b took over, and the decisions are %v", got)
		}
	})
}

func TestReplayHoldsARouteAgainstTheNewestFailureOfTheDeploymentBefore(t *testing.T) {
	failed := func(name string, class llm.Class) llm.Attempt {
		return llm.Attempt{Deployment: name, Class: class, Err: &llm.Error{Class: class, Deployment: name}}
	}
	state := middleware.State{Left: middleware.NoLimit(), Retry: middleware.RetryOption{Left: 2}, Routes: []middleware.RouteOption{
		{Name: "a", Window: 2000}, {Name: "b", Window: 1000, For: []llm.Class{llm.Quota}}, {Name: "c", Window: 4000},
	}}
	got := middleware.Replay(state, []llm.Attempt{failed("a", llm.Overloaded), failed("a", llm.Quota), {Deployment: "b"}})
	if len(got) != 2 || got[0].Action != middleware.ActionRetry || got[1].Action != middleware.ActionFallback || got[1].Route != 1 {
		t.Errorf("b stands in for quota, and the decisions are %v", got)
	}
	got = middleware.Replay(state, []llm.Attempt{failed("a", llm.TooLong), {Deployment: "c"}})
	if len(got) != 1 || got[0].Action != middleware.ActionFallback || got[0].Route != 2 {
		t.Errorf("c has a larger window, b has not, and the decisions are %v", got)
	}
	state.Routes[1].For = nil
	got = middleware.Replay(state, []llm.Attempt{failed("a", llm.TooLong), {Deployment: "c"}})
	if len(got) != 1 || got[0].Action != middleware.ActionFallback || got[0].Route != 2 {
		t.Errorf("c has a larger window, b has not, and the decisions are %v", got)
	}
}
