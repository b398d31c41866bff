package llmtest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

// TestActs checks what an adapter makes of everything that a [Provider] does: the class of each failure, the wait it asks for,
// the part of the answer that came before a break, and that no request is sent twice. model makes the adapter for a Provider,
// with its URL and Client.
func TestActs(t *testing.T, model func(t *testing.T, p *Provider) llm.Caller) {
	for _, v := range actVerdicts {
		t.Run(string(v.act), func(t *testing.T) {
			for _, wrong := range tryAct(t, model, v) {
				t.Error(wrong)
			}
		})
	}
	t.Run("failures in band and of an edge", func(t *testing.T) {
		for _, v := range moreVerdicts {
			if wrong := tryTurn(t, model, v.turn, true).against(v.want, &v.turn); wrong != "" {
				t.Errorf("%s %s %d: %s", v.turn.Do, v.turn.Error, v.turn.Status, wrong)
			}
		}
	})
	t.Run("all that an answer can have", func(t *testing.T) { fullAnswer(t, model) })
}

// tryAct lists what is wrong with what a model makes of an act.
func tryAct(t *testing.T, model func(*testing.T, *Provider) llm.Caller, v actVerdict) (wrong []string) {
	t.Helper()
	for _, c := range []struct {
		how    string
		want   verdict
		stream bool
		at     int
	}{{"whole", v.whole, false, 0}, {"streamed", v.first, true, 0}, {"streamed, after two pieces", v.later, true, 2}} {
		turn := Turn{Do: v.act, Text: "one two three four", At: c.at, Hold: time.Millisecond}
		if v.act == DoRateLimited {
			turn.RetryAfter = 7 * time.Second
		}
		if is := tryTurn(t, model, turn, c.stream).against(c.want, &turn); is != "" {
			wrong = append(wrong, c.how+": "+is)
		}
	}
	return wrong
}

// verdict is what may come of an act: failures of these classes, an answer, an answer that was refused. Zero: anything.
type verdict struct {
	classes         []llm.Class
	answer, refused bool
}

func is(classes ...llm.Class) verdict { return verdict{classes: classes} }

func (v verdict) or(w verdict) verdict {
	return verdict{append(slices.Clone(v.classes), w.classes...), v.answer || w.answer, v.refused || w.refused}
}

var (
	anything  = verdict{}
	answers   = verdict{answer: true}
	refuses   = verdict{refused: true}
	unsound   = is(llm.BadOutput)
	gone      = is(llm.Unavailable)
	broken    = is(llm.Interrupted)
	noAnswer  = is(llm.BadOutput, llm.Unavailable, llm.Interrupted)
	shed      = is(llm.Overloaded)
	malformed = is(llm.Invalid)
)

// An actVerdict is what may come of an act: of an answer in one piece, of a stream at its beginning and after two pieces.
type actVerdict struct {
	act                 Act
	whole, first, later verdict
}

var actVerdicts = []actVerdict{
	{DoAnswer, answers, answers, answers},
	{DoRefuse, refuses, refuses, refuses},
	{DoFilter, refuses, refuses, refuses},
	{DoEmpty, unsound, unsound, unsound},
	{DoRateLimited, is(llm.RateLimited), is(llm.RateLimited), is(llm.RateLimited)},
	{DoQuota, is(llm.Quota), is(llm.Quota), is(llm.Quota)},
	{DoOverloaded, shed, shed, shed},
	{DoUnavailable, gone, gone, gone},
	{DoServerError, gone, gone, gone},
	{DoTimeout, is(llm.Timeout), is(llm.Timeout), is(llm.Timeout)},
	{DoAuth, is(llm.Auth), is(llm.Auth), is(llm.Auth)},
	{DoForbidden, is(llm.Auth), is(llm.Auth), is(llm.Auth)},
	{DoNotFound, is(llm.NotFound), is(llm.NotFound), is(llm.NotFound)},
	{DoTooLong, is(llm.TooLong), is(llm.TooLong), is(llm.TooLong)},
	{DoContentPolicy, is(llm.Refused).or(refuses), is(llm.Refused).or(refuses), is(llm.Refused).or(refuses)},
	{DoInvalid, malformed, malformed, malformed},
	{DoToolSchema, malformed, malformed, malformed},
	{DoPage, gone, gone, gone},
	{DoRaw, unsound, noAnswer, noAnswer},
	{DoBlank, unsound, noAnswer, noAnswer},
	{DoWrongType, answers, answers, answers},
	{DoReset, gone, gone, gone},
	{DoResetHeaders, gone, gone, gone},
	{DoResetBody, broken, broken, broken},
	{DoClose, gone, gone, gone},
	{DoSilence, gone, gone, gone},
	{DoStall, broken, broken, broken},
	{DoCut, unsound, broken.or(gone), broken},
	{DoCutChunk, broken, broken, broken},
	{DoMalformed, unsound, unsound, broken},
	{DoTruncated, unsound, unsound, broken},
	{DoError, shed, shed, broken},
	{DoNoFinish, anything, broken, broken}, // some servers never say why a whole answer ended
	{DoNoDone, answers, answers.or(broken), answers.or(broken)},
	{DoNoEnd, anything, broken, broken},
}

var moreVerdicts = []struct {
	turn Turn
	want verdict
}{
	{Turn{Do: DoError, Error: DoRateLimited}, is(llm.RateLimited)},
	{Turn{Do: DoError, Error: DoOverloaded}, shed},
	{Turn{Do: DoError, Error: DoServerError}, gone},
	{Turn{Do: DoError, Error: DoQuota}, is(llm.Quota)},
	{Turn{Do: DoTimeout, Status: 408}, is(llm.Timeout)},
	{Turn{Do: DoTimeout, Status: 504}, is(llm.Timeout)},
	{Turn{Do: DoTimeout, Status: 524}, is(llm.Timeout)},
	{Turn{Do: DoPage, Status: 503}, gone},
	{Turn{Do: DoPage, Status: 520}, gone},
	{Turn{Do: DoPage, Status: 200}, noAnswer},
	{Turn{Do: DoWrongType, ContentType: "text/html"}, noAnswer.or(answers)},
}

// outcome is what came of a call.
type outcome struct {
	resp  *llm.Response
	err   error
	heard string
	rows  []Exchange
}

func tryTurn(t *testing.T, model func(*testing.T, *Provider) llm.Caller, turn Turn, stream bool) outcome {
	t.Helper()
	p := NewProvider(t, Turns(turn))
	defer p.Close()
	var o outcome
	var heard strings.Builder
	req := callerRequest()
	if stream {
		req.Sink = func(d llm.Delta) error {
			heard.WriteString(d.Text)
			return nil
		}
	}
	o.resp, o.err = (&llm.Deployment{Name: "d", Caller: model(t, p)}).Call(t.Context(), req)
	p.Wait()
	o.heard, o.rows = heard.String(), p.Exchanges()
	return o
}

// against says what is wrong with an outcome. "": nothing.
func (o outcome) against(want verdict, turn *Turn) string {
	switch {
	case len(o.rows) != 1:
		return "the adapter sent " + strconv.Itoa(len(o.rows)) + " requests for one call"
	case o.rows[0].Did != string(turn.act()):
		return "the log says " + o.rows[0].Did
	case o.err == nil && o.resp == nil:
		return "neither an answer nor an error"
	case o.err == nil && want.classes == nil && !want.answer && !want.refused: // anything
		return ""
	case o.err == nil && !want.answer && !want.refused:
		return "it was taken for an answer: " + o.resp.Text()
	case o.err == nil && o.resp.Refused() != want.refused:
		return "an answer, stop reason " + string(o.resp.Stop)
	case o.err == nil && turn.Do == DoAnswer && o.resp.Text() != turn.Text:
		return "the text is " + o.resp.Text()
	case o.err == nil:
		return ""
	}
	e := llm.AsError(o.err)
	switch {
	case want.classes != nil && !slices.Contains(want.classes, e.Class):
		return "class " + e.Class.String() + ": " + e.Error()
	case want.classes == nil && (want.answer || want.refused):
		return e.Error()
	case e.RetryAfter != turn.RetryAfter:
		return "a wait of " + e.RetryAfter.String() + " was understood, not " + turn.RetryAfter.String()
	case e.Partial.Text() != o.heard:
		return "the partial answer is " + e.Partial.Text() + ", and the sink heard " + o.heard
	case turn.At == 2 && breaks(turn.Do) && o.heard != "one two" && o.rows[0].Stream:
		return "the sink heard " + o.heard + ", not the two pieces that were sent"
	}
	return ""
}

// fullAnswer sends reasoning, text and two calls, whole and streamed.
func fullAnswer(t *testing.T, model func(*testing.T, *Provider) llm.Caller) {
	calls := []llm.ToolCall{
		{ID: "call_a", Name: "look", Arguments: json.RawMessage(`{"at":"the \"sea\"","n":1}`)},
		{ID: "call_b", Name: "look", Arguments: json.RawMessage(`{}`)},
	}
	usage := llm.Usage{Input: 70, Output: 30, Reasoning: 11, CachedInput: 20}
	turn := Turn{Text: "Søk: <b>", Reasoning: "think of it", Calls: calls, Usage: usage, Model: "model-0815"}
	for _, stream := range []bool{false, true} {
		o := tryTurn(t, model, turn, stream)
		if o.err != nil {
			t.Errorf("streamed %v: %v", stream, o.err)
			continue
		}
		var thought strings.Builder
		for _, p := range o.resp.Parts {
			if p.Kind == llm.PartReasoning {
				thought.WriteString(p.Text)
			}
		}
		got := o.resp.ToolCalls()
		if o.resp.Text() != turn.Text || thought.String() != turn.Reasoning || len(got) != 2 || o.resp.Stop != llm.StopToolCalls {
			t.Errorf("streamed %v: text %q, reasoning %q, %d calls, stop %s", stream, o.resp.Text(), thought.String(), len(got),
				o.resp.Stop)
			continue
		}
		for i, c := range got {
			if c.Name != calls[i].Name || string(c.Arguments) != string(calls[i].Arguments) {
				t.Errorf("streamed %v: call %d is %s %s", stream, i, c.Name, c.Arguments)
			}
		}
		if u := o.resp.Usage; u.Input != usage.Input || u.Output != usage.Output || u.CachedInput != usage.CachedInput {
			t.Errorf("streamed %v: usage %+v, want %+v", stream, u, usage)
		}
	}
}
