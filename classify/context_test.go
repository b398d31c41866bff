package classify

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

// post wraps err as the HTTP client does.
func post(err error) error {
	return &url.Error{Op: "Post", URL: "https://api.example.com/v1", Err: err}
}

func canceled(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

func TestNilStaysNil(t *testing.T) {
	if e := Err(canceled(nil), nil); e != nil {
		t.Errorf("got %v", e)
	}
	if e := Error(nil); e != nil {
		t.Errorf("got %v", e)
	}
}

func TestTheCallersCancelDecidesBeforeTheEvidence(t *testing.T) {
	failure := &llm.Error{Provider: "openai", Evidence: llm.Evidence{Status: 429, Body: `{"error":{"message":"slow"}}`}}
	for _, err := range []error{post(context.Canceled), failure, errors.New("anything"), fmt.Errorf("wrapped: %w", failure)} {
		e := Err(canceled(nil), err)
		if e.Class != llm.Canceled || !errors.Is(e, context.Canceled) || !errors.Is(e, llm.Canceled) {
			t.Errorf("%v: got %v", err, e)
		}
		if e.RetryAfter != 0 || e.Rule != "context" {
			t.Errorf("%v: wait %v by %q", err, e.RetryAfter, e.Rule)
		}
	}
	failure.RetryAfter, failure.CoolUntil, failure.Advice = time.Hour, true, llm.AdviceRetry
	if e := Err(canceled(nil), failure); e.RetryAfter != 0 || e.CoolUntil || e.Advice != llm.AdviceNone {
		t.Error("the provider's wait is not about a call that the caller left")
	}
	if e := Err(canceled(nil), failure); e.Evidence.Status != 429 {
		t.Error("the evidence is lost")
	}
}

func TestACauseOfTheCallersOwnStaysInTheChain(t *testing.T) {
	mine := errors.New("the tab was closed")
	e := Err(canceled(mine), post(mine)) // the HTTP client returns the cause
	if e.Class != llm.Canceled || !errors.Is(e, mine) || !errors.Is(e, context.Canceled) {
		t.Errorf("got %v", e)
	}
}

func TestTheCallersDeadlineIsExhausted(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	e := Err(ctx, post(context.DeadlineExceeded))
	if e.Class != llm.Exhausted || !errors.Is(e, context.DeadlineExceeded) || e.Message != "the caller's deadline passed" {
		t.Errorf("got %v", e)
	}
	mine := errors.New("budget of the page")
	ctx, cancel = context.WithDeadlineCause(t.Context(), time.Unix(0, 0), mine)
	defer cancel()
	e = Err(ctx, post(mine))
	if e.Class != llm.Exhausted || !errors.Is(e, context.DeadlineExceeded) || !errors.Is(e, mine) {
		t.Errorf("with a cause: got %v", e)
	}
}

func TestAStagesLimitKeepsItsClassAndMessage(t *testing.T) {
	limit := llm.Limit(llm.Stalled, "no first token in 2s")
	ctx, cancel := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), limit)
	defer cancel()
	e := Err(ctx, post(limit))
	if e.Class != llm.Stalled || e.Owner != llm.OwnerTransient || e.Message != "no first token in 2s" {
		t.Errorf("got %v", e)
	}
}

func TestTheCallersCauseIsNoVerdictWhateverItIs(t *testing.T) {
	for _, cause := range []error{
		llm.RateLimited, fmt.Errorf("idle: %w", llm.Stalled), fmt.Errorf("wrapped: %w", llm.Limit(llm.Stalled, "a sibling's")),
		&llm.Error{Class: llm.Quota, Owner: llm.OwnerQuota, Deployment: "sibling", RequestID: "theirs", RetryAfter: time.Hour},
	} {
		e := Err(canceled(cause), post(cause))
		if e.Class != llm.Canceled || !errors.Is(e, context.Canceled) || !errors.Is(e, cause) || e.RetryAfter != 0 || e.RequestID != "" {
			t.Errorf("%v: got %v, RetryAfter %v, request %q", cause, e, e.RetryAfter, e.RequestID)
		}
	}
}

func TestContextErrorsUnderALivingContextAreOthers(t *testing.T) {
	e := Err(t.Context(), post(context.Canceled))
	if e.Class == llm.Canceled || e.Class == llm.Unknown {
		t.Errorf("a cancel of somebody else's: got %v", e)
	}
	e = Err(t.Context(), post(context.DeadlineExceeded))
	if e.Class != llm.Timeout {
		t.Errorf("the client's own timeout: got %v", e)
	}
	if e = Err(nil, post(context.DeadlineExceeded)); e.Class != llm.Timeout { //nolint:staticcheck // nil must not hurt
		t.Errorf("nil context: got %v", e)
	}
}

func TestCommitOfACallThatItsContextEnded(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want llm.CommitState
	}{
		{"while dialing", &llm.Error{Evidence: llm.Evidence{Phase: llm.PhaseConnect}}, llm.CommitNone},
		{"dial error", post(errors.New("dial tcp 192.0.2.1:443: operation was canceled")), llm.CommitNone},
		{"after sending", &llm.Error{Evidence: llm.Evidence{Phase: llm.PhaseSend}}, llm.CommitUnknown},
		{"nobody knows", post(context.Canceled), llm.CommitUnknown},
		{"after a part", &llm.Error{Evidence: llm.Evidence{Phase: llm.PhaseStream, Partial: true}}, llm.Committed},
		{"after a part, told by the part", &llm.Error{Partial: &llm.Response{}}, llm.Committed},
	}
	for _, tt := range tests {
		if e := Err(canceled(nil), tt.err); e.Commit != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, e.Commit, tt.want)
		}
	}
}

func TestErrorsOfStagesPassUnchanged(t *testing.T) {
	cooling := &llm.Error{Class: llm.Cooling, Message: "rests", RetryAfter: time.Minute, Deployment: "d"}
	e := Err(t.Context(), cooling)
	if e.Class != llm.Cooling || e.RetryAfter != time.Minute || e.Deployment != "d" || e.Rule != "" {
		t.Errorf("got %+v", e)
	}
	if e = Err(t.Context(), llm.BadOutput); e.Class != llm.BadOutput || e.Owner != llm.OwnerTransient {
		t.Errorf("a bare class: got %+v", e)
	}
	if e = Err(t.Context(), fmt.Errorf("mine: %w", llm.Refused)); e.Class != llm.Refused || e.Owner != llm.OwnerPolicy {
		t.Errorf("a wrapped class: got %+v", e)
	}
	if e = Error(&llm.Error{Err: fmt.Errorf("mine: %w", llm.Refused)}); e.Class != llm.Refused {
		t.Errorf("a class as cause: got %+v", e)
	}
	if e = Error(&llm.Error{Commit: llm.Committed, Evidence: llm.Evidence{Status: 429}}); e.Commit != llm.Committed {
		t.Errorf("the adapter knew more: got %v", e.Commit)
	}
	sentinel := errors.New("mine")
	e = Err(t.Context(), fmt.Errorf("%w: %w", sentinel, &llm.Error{Evidence: llm.Evidence{Status: 503}}))
	if e.Class != llm.Unavailable || !errors.Is(e, sentinel) {
		t.Errorf("a wrapped error: got %+v", e)
	}
	if e = Err(t.Context(), sentinel); e.Class != llm.Unknown || !errors.Is(e, sentinel) {
		t.Errorf("a foreign error: got %+v", e)
	}
}

func TestTheInputIsNotWrittenTo(t *testing.T) {
	in := &llm.Error{Provider: "openai", Evidence: llm.Evidence{Status: 429, Message: "key sk-0123456789abcdef bad"}}
	Error(in)
	if in.Class != llm.Unknown || !strings.Contains(in.Evidence.Message, "sk-0123456789abcdef") || in.Rule != "" {
		t.Errorf("it was: %+v", in)
	}
}

func TestTwiceIsOnce(t *testing.T) {
	for _, f := range fixtures(t) {
		once := Err(t.Context(), f.failure())
		twice := Err(t.Context(), once)
		if twice.Class != once.Class || twice.RetryAfter != once.RetryAfter || twice.CoolUntil != once.CoolUntil ||
			twice.Rule != once.Rule || twice.Commit != once.Commit || twice.Error() != once.Error() {
			t.Errorf("%s:\n%v\n%v", f.Name, once, twice)
		}
	}
}
