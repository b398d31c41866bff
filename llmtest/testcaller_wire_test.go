package llmtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/classify"
)

// A line is one event of the wire that the suite of Callers is tried on: JSON, a line each. The last one is the end.
type line struct {
	Text  string         `json:",omitempty"`
	Call  *llm.ToolCall  `json:",omitempty"`
	More  string         `json:",omitempty"` // arguments that go on
	End   llm.StopReason `json:",omitempty"`
	Usage llm.Usage
}

type asked struct {
	Stream bool
	System string
	Labels map[string]string `json:",omitempty"`
}

// serveLines says a.
func serveLines(w http.ResponseWriter, r *http.Request, a Answer) {
	var req asked
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	drain(r)
	say := func(l line) {
		data, _ := json.Marshal(l) //nolint:errchkjson // what a line holds has JSON
		_, _ = fmt.Fprintf(w, "%s\n", data)
		_ = http.NewResponseController(w).Flush()
	}
	after := func(i int) {
		if a.After != nil {
			a.After(i)
		}
	}
	w.Header().Set("Content-Type", "application/lines")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	if req.Stream {
		after(-1)
	}
	for i, text := range a.Text {
		if a.Garbage > 0 && i == a.Garbage {
			_, _ = fmt.Fprintln(w, "{{{")
		}
		say(line{Text: text})
		after(i)
	}
	for _, c := range a.Calls {
		half := len(c.Arguments) / 2
		say(line{Call: &llm.ToolCall{ID: c.ID, Name: c.Name}, More: string(c.Arguments[:half])})
		say(line{More: string(c.Arguments[half:])})
	}
	stop := llm.StopEnd
	if len(a.Calls) > 0 {
		stop = llm.StopToolCalls
	}
	if !a.NoEnd {
		say(line{End: stop, Usage: a.Usage})
	}
}

// lineCaller is an adapter for that wire, which keeps the contract if neither of its faults is set.
type lineCaller struct {
	url    string
	labels bool // are sent
	lossy  bool // an event after one that is no line is lost
}

func (c *lineCaller) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return nil, llm.Invalid
	}
	ask := asked{Stream: req.Sink != nil, System: req.System}
	if c.labels {
		ask.Labels = req.Labels
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Close = true
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body) // as far as it came
		return nil, classify.Error(&llm.Error{Evidence: llm.Evidence{Status: answer.StatusCode, Header: answer.Header, Body: string(text)}})
	}
	return c.read(ctx, req, bufio.NewScanner(answer.Body))
}

func (c *lineCaller) failed(ctx context.Context, err error) error {
	if e := llm.ContextError(ctx, err); e != nil {
		return e
	}
	return classify.Err(ctx, err)
}

func (c *lineCaller) read(ctx context.Context, req *llm.Request, lines *bufio.Scanner) (*llm.Response, error) {
	var acc llm.Accumulator
	call, skip := -1, false
	broken := func(cause error) error {
		e := &llm.Error{Class: llm.Interrupted, Owner: llm.OwnerTransient, Err: cause, Evidence: llm.Evidence{Phase: llm.PhaseStream}}
		if cause != nil {
			if ended := llm.ContextError(ctx, cause); ended != nil {
				e = ended
			}
		}
		if e.Partial = acc.Partial(); e.Partial != nil {
			e.Commit = llm.Committed
		}
		return e
	}
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			if c.lossy {
				skip = true
				continue
			}
			return nil, broken(err)
		}
		if l.End != "" {
			resp := acc.Response()
			resp.Stop, resp.Usage = l.End, l.Usage
			return resp, nil
		}
		if skip {
			skip = false
			continue
		}
		d := llm.Delta{Text: l.Text}
		if l.Text == "" {
			d = llm.Delta{Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{Arguments: l.More}}
			if l.Call != nil {
				call++
				d.Call.ID, d.Call.Name = l.Call.ID, l.Call.Name
			}
			d.Index = call
		}
		acc.Add(d)
		if req.Sink != nil {
			if err := req.Sink(d); err != nil {
				return nil, err
			}
		}
	}
	return nil, broken(lines.Err())
}

func lineWire(wrap func(llm.Caller) llm.Caller) Wire {
	return Wire{
		New:   func(_ *testing.T, url string) llm.Caller { return wrap(&lineCaller{url: url}) },
		Serve: serveLines, Event: "application/lines",
	}
}

func TestACallerThatKeepsTheContractPasses(t *testing.T) {
	TestCaller(t, lineWire(func(c llm.Caller) llm.Caller { return c }))
}

// withFault is c with a fault of its own.
func withFault(set func(*lineCaller)) func(llm.Caller) llm.Caller {
	return func(c llm.Caller) llm.Caller {
		if l, ok := c.(*lineCaller); ok {
			set(l)
		}
		return c
	}
}

// instead makes a Caller of what is called in the place of one.
func instead(b body) func(llm.Caller) llm.Caller {
	return func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) { return b(ctx, req, next) })
	}
}

// failures changes what a call fails with.
func failures(change func(err error) (*llm.Response, error)) func(llm.Caller) llm.Caller {
	return instead(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
		resp, err := next.Call(ctx, req)
		if err != nil {
			return change(err)
		}
		return resp, nil
	})
}

func answersWith(change func(req *llm.Request, resp *llm.Response)) func(llm.Caller) llm.Caller {
	return instead(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
		resp, err := next.Call(ctx, req)
		if err == nil {
			change(req, resp)
		}
		return resp, err
	})
}

// sinks changes what the sink is called with, and how.
func sinks(hand func(sink llm.Sink, d llm.Delta) error) func(llm.Caller) llm.Caller {
	return instead(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
		if req.Sink == nil {
			return next.Call(ctx, req)
		}
		return next.Call(ctx, sinking(req, func(d llm.Delta) error { return hand(req.Sink, d) }))
	})
}

func anotherClass(c llm.Class) func(llm.Caller) llm.Caller {
	return failures(func(error) (*llm.Response, error) { return nil, &llm.Error{Class: c} })
}

// wrongCallers are, for each rule of the suite, Callers that break it.
func wrongCallers() map[string]func(llm.Caller) llm.Caller {
	var call llm.ToolCallDelta
	partial := failures(func(err error) (*llm.Response, error) {
		if p := llm.AsError(err).Partial; p != nil {
			return p, nil
		}
		return nil, err
	})
	madeUp := failures(func(error) (*llm.Response, error) { return textResponse("made up"), nil })
	return map[string]func(llm.Caller) llm.Caller{
		"whole answer": answersWith(func(_ *llm.Request, resp *llm.Response) { resp.Usage = llm.Usage{} }),
		"same answer streamed": answersWith(func(req *llm.Request, resp *llm.Response) {
			if req.Sink != nil {
				resp.Parts = resp.Parts[:1]
			}
		}),
		"deltas that are kept": sinks(func(sink llm.Sink, d llm.Delta) error {
			if d.Call != nil {
				call = *d.Call
				d.Call = &call
			}
			return sink(d)
		}),
		"tool calls": answersWith(func(_ *llm.Request, resp *llm.Response) { resp.Parts = resp.Parts[:1] }),
		"request untouched": instead(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			req.System = strings.ToUpper(req.System)
			return next.Call(ctx, req)
		}),
		"sink fails": anotherClass(llm.Canceled),
		"same goroutine": sinks(func(sink llm.Sink, d llm.Delta) error {
			done := make(chan error)
			go func() { done <- sink(d) }()
			return <-done
		}),
		"cancel before headers": anotherClass(llm.Unavailable),
		"cancel before output":  anotherClass(llm.Unavailable),
		"cancel in the stream":  anotherClass(llm.Interrupted),
		"canceled before the call": instead(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(context.WithoutCancel(ctx), req)
		}),
		"cut stream":                   partial,
		"ended stream without its end": partial,
		"cut before output":            anotherClass(llm.Invalid),
		"garbage in the stream":        withFault(func(l *lineCaller) { l.lossy = true }),
		"empty stream":                 madeUp,
		"HTML instead of a stream":     madeUp,
		"HTML instead of an answer":    anotherClass(llm.Invalid),
		"empty answer":                 madeUp,
		"server error":                 anotherClass(llm.Unavailable),
		"nobody listens":               anotherClass(llm.BadOutput),
		"concurrent calls":             oneAtMost,
		"nil request": instead(func(ctx context.Context, req *llm.Request, next llm.Caller) (*llm.Response, error) {
			return next.Call(ctx, sinking(req, req.Sink))
		}),
		"fresh response": func(next llm.Caller) llm.Caller {
			var kept *llm.Response
			return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
				if kept == nil {
					kept, err = next.Call(ctx, req)
				}
				return kept, err
			})
		},
		"one request": instead(again(2)),
		"labels":      withFault(func(l *lineCaller) { l.labels = true }),
		"deadline":    anotherClass(llm.Timeout),
	}
}

// oneAtMost waits for a second call beside the first, which it fails.
func oneAtMost(next llm.Caller) llm.Caller {
	place, second := make(chan struct{}, 1), make(chan struct{}, 100)
	return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		select {
		case place <- struct{}{}:
			<-second
			return next.Call(ctx, req)
		default:
			second <- struct{}{}
			return nil, llm.Overloaded
		}
	})
}

// Each rule of TestCaller rejects a Caller that breaks it, and says so in its own sentence.
func TestTheSuiteOfCallersRejectsWhatBreaksEachRule(t *testing.T) {
	wrong := wrongCallers()
	for _, c := range callerCases {
		wrap := wrong[c.name]
		if wrap == nil {
			t.Errorf("no Caller breaks the rule %q: %s", c.name, c.sentence)
			continue
		}
		delete(wrong, c.name)
		t.Run(c.name, func(t *testing.T) {
			h := &heard{TB: t}
			var turn = make(chan struct{}, 1) // Callers fail on goroutines of their own
			c.run(&callerSuite{T: t, wire: lineWire(wrap), sentence: c.sentence, errorf: func(format string, args ...any) {
				turn <- struct{}{}
				defer func() { <-turn }()
				h.Errorf(format, args...)
			}})
			if len(h.said) == 0 || !strings.HasSuffix(h.said[0], "the contract: "+c.sentence) {
				t.Errorf("the suite says %q", h.said)
			}
			if len(h.said) > 0 {
				t.Log(h.said[0])
			}
		})
	}
	for name := range wrong {
		t.Errorf("there is a Caller for a rule %q, which the suite does not have", name)
	}
}
