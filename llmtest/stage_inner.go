package llmtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
)

// calls are those that reach what a stage under test wraps.
type calls struct {
	mu     sync.Mutex
	all    []seenCall
	now    int // under way
	most   int // that were at once
	made   int // that reached a model
	before func(ctx context.Context, req *llm.Request)
}

// seenCall is one of them.
type seenCall struct {
	ctx context.Context //nolint:containedctx // looked at, never used
	req *llm.Request    // a copy
	at  time.Time
	// leaf is the name of the deployment.
	leaf string
	// ended says that its context had ended before it began.
	ended bool
}

// inner is what a stage under test wraps: a deployment, and before it one who looks.
type inner struct {
	*llm.Deployment
	calls *calls
}

// leaf is a deployment called name, of which a call does as do says.
func (c *calls) leaf(name string, do llm.CallerFunc) *inner {
	model := func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		c.mu.Lock()
		c.made++
		c.mu.Unlock()
		return do(ctx, req)
	}
	return &inner{&llm.Deployment{Name: name, Provider: "test", Has: ^llm.Capabilities(0), Caller: llm.CallerFunc(model)}, c}
}

func (i *inner) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return i.Deployment.Call(ctx, nil)
	}
	i.calls.enter(ctx, req, i.Name)
	defer i.calls.leave()
	if i.calls.before != nil {
		i.calls.before(ctx, req)
	}
	return i.Deployment.Call(ctx, req)
}

func (c *calls) enter(ctx context.Context, req *llm.Request, leaf string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, seenCall{ctx, req.Detach(), time.Now(), leaf, ctx.Err() != nil})
	c.now++
	c.most = max(c.most, c.now)
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

func (c *calls) seen() []seenCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]seenCall(nil), c.all...)
}

func (c *calls) madeCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

func (c *calls) count() int { return len(c.seen()) }

// ended is how a call of the stage under test went.
type ended struct {
	rec      *Recorder
	resp     *llm.Response
	err      error
	panicked any
	exited   bool
	took     time.Duration
}

func (o *ended) String() string {
	switch {
	case o.panicked != nil:
		return fmt.Sprintf("panic %v", o.panicked)
	case o.exited:
		return "runtime.Goexit"
	}
	return fmt.Sprintf("%s, error %v", answerOf(o.resp), o.err)
}

func answerOf(r *llm.Response) string {
	if r == nil {
		return "no answer"
	}
	return fmt.Sprintf("answer %q", r.Text()+r.Refusal)
}

// call calls c on a goroutine of its own, whole or with a Recorder, and waits for it.
func (s *stageSuite) call(ctx context.Context, c llm.Caller, req *llm.Request, rec *Recorder) *ended {
	o, done := s.start(ctx, c, req, rec)
	<-done
	return o
}

// start is call that does not wait. What it returns may be read when done is closed.
func (s *stageSuite) start(ctx context.Context, c llm.Caller, req *llm.Request, rec *Recorder) (o *ended, done chan struct{}) {
	o, done = &ended{rec: rec}, make(chan struct{})
	go func() {
		began, returned := time.Now(), false
		defer close(done)
		defer func() {
			o.took = time.Since(began)
			o.panicked = recover()
			o.exited = !returned && o.panicked == nil
		}()
		if rec != nil {
			o.resp, o.err = rec.Call(ctx, c, req)
		} else {
			o.resp, o.err = c.Call(ctx, req)
		}
		returned = true
	}()
	return o, done
}

// bothWays calls what around makes once whole and once streamed.
func (s *stageSuite) bothWays(do llm.CallerFunc, check func(how string, o *ended, all *calls)) {
	for _, how := range []string{"whole", "streamed"} {
		c, all := s.around(do)
		var rec *Recorder
		if how == "streamed" {
			rec = &Recorder{}
		}
		check(how, s.call(s.Context(), c, stageRequest(), rec), all)
	}
}

// eachFailure calls with a failure of each class.
func (s *stageSuite) eachFailure(check func(c llm.Class, how string, o *ended, all *calls)) {
	for c := range llm.Class(llm.NumClasses) {
		s.bothWays(failing(c), func(how string, o *ended, all *calls) { check(c, how, o, all) })
	}
}

func failing(c llm.Class) llm.CallerFunc {
	return func(context.Context, *llm.Request) (*llm.Response, error) {
		return nil, &llm.Error{Class: c, Owner: c.Owner(), Message: "scripted"}
	}
}

// stageRequest has something of everything.
func stageRequest() *llm.Request {
	temperature, seed := 0.5, int64(7)
	return &llm.Request{
		Model: "test-model", System: "Be brief.", MaxTokens: 100, Temperature: &temperature, Seed: &seed, Stop: roomy("END"),
		Messages: roomy(
			roomyUser("Where is it?"),
			llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{{Kind: llm.PartToolCall, Call: &llm.ToolCall{
				ID: "c1", Name: "look", Arguments: json.RawMessage(`{"where":"here"}`),
			}}}},
			llm.Message{Role: llm.RoleTool, Parts: []llm.Part{{Kind: llm.PartToolResult, Result: &llm.ToolResult{
				CallID: "c1", Name: "look", Parts: []llm.Part{llm.Text("Not here.")},
			}}}},
			roomyUser("Where else?"),
		),
		Tools: roomy(
			llm.Tool{Name: "look", Description: "looks", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
		),
		Labels: map[string]string{"tenant": "t"},
		Extra:  map[string]json.RawMessage{"test": json.RawMessage(`{"a":1}`)},
	}
}

// roomy is a slice with room behind its end, as those of callers that append have: who appends to it writes there.
func roomy[T any](of ...T) []T { return append(make([]T, 0, len(of)+4), of...) }

func roomyUser(text string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: roomy(llm.Text(text))}
}

// stageDeltas are what a stream consists of.
func stageDeltas() []llm.Delta {
	return []llm.Delta{
		{Kind: llm.DeltaReasoning, Text: "Let me "}, {Kind: llm.DeltaReasoning, Text: "think."},
		{Kind: llm.DeltaText, Text: "It is "}, {Kind: llm.DeltaText, Text: "over "}, {Kind: llm.DeltaText, Text: "there."},
		{Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{ID: "c2", Name: "look", Arguments: `{"where":`}},
		{Kind: llm.DeltaToolCall, Call: &llm.ToolCallDelta{Arguments: `"there"}`}},
	}
}

// stageAnswer is the Response of stageDeltas.
func stageAnswer() *llm.Response {
	return &llm.Response{
		Parts: []llm.Part{
			{Kind: llm.PartReasoning, Text: "Let me think.", Extra: map[string]json.RawMessage{"test": json.RawMessage(`{"a":"s"}`)}},
			llm.Text("It is over there."),
			{Kind: llm.PartToolCall, Call: &llm.ToolCall{ID: "c2", Name: "look", Arguments: json.RawMessage(`{"where":"there"}`)}},
		},
		Stop: llm.StopToolCalls, StopDetail: "tool_use", Usage: llm.Usage{Input: 20, Output: 9}, Model: "test-model-1",
		RequestID: "r1", Status: 200, Extra: map[string]json.RawMessage{"test": json.RawMessage(`{"tier":"x"}`)},
	}
}

func answering(_ context.Context, req *llm.Request) (*llm.Response, error) {
	if err := handOut(req, len(stageDeltas())); err != nil {
		return nil, err
	}
	return stageAnswer(), nil
}

// inTurn does what each of dos says for one call, and the last for all that follow.
func inTurn(dos ...llm.CallerFunc) llm.CallerFunc {
	var n atomic.Int32
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		return dos[min(int(n.Add(1)), len(dos))-1](ctx, req)
	}
}

// after does it after d.
func after(d time.Duration, do llm.CallerFunc) llm.CallerFunc {
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		if err := wait(ctx, d); err != nil {
			return nil, err
		}
		return do(ctx, req)
	}
}

// deaf ignores its context.
func deaf(context.Context, *llm.Request) (*llm.Response, error) {
	<-time.NewTimer(time.Minute).C
	return nil, llm.Unavailable
}

// handOut hands out the first n of stageDeltas.
func handOut(req *llm.Request, n int) error {
	if req.Sink == nil {
		return nil
	}
	for _, d := range stageDeltas()[:n] {
		if err := req.Sink(d); err != nil {
			return err
		}
	}
	return nil
}

// differs says what in an answer is not as it was given. "": nothing.
func differs(got, want *llm.Response) string {
	a, b := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for i := range a.NumField() {
		switch f := a.Type().Field(i); {
		case !f.IsExported(), f.Name == "Deployment", f.Name == "Attempts":
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			return fmt.Sprintf("%s is %s, was %s", f.Name, inJSON(a.Field(i)), inJSON(b.Field(i)))
		}
	}
	return ""
}

// changed says what in a request is not as it was. "": nothing.
func changed(is, was *llm.Request) string {
	a, b := reflect.ValueOf(*is.Detach()), reflect.ValueOf(*was.Detach())
	for i := range a.NumField() {
		f := a.Type().Field(i)
		if f.IsExported() && f.Name != "Sink" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			return fmt.Sprintf("%s is %s, was %s", f.Name, inJSON(a.Field(i)), inJSON(b.Field(i)))
		}
	}
	return ""
}

// behind says which slice of a request has something behind its end. "": none.
func behind(req *llm.Request) string {
	full := func(name string, s any) string {
		v := reflect.ValueOf(s)
		for i := v.Len(); i < v.Cap(); i++ {
			if e := v.Slice(0, v.Cap()).Index(i); !e.IsZero() {
				return fmt.Sprintf("behind the end of its %s, in the same memory, is now %s; clone a slice before you append to it",
					name, inJSON(e))
			}
		}
		return ""
	}
	found := cmp.Or(full("Messages", req.Messages), full("Tools", req.Tools), full("Stop", req.Stop))
	for i := range req.Messages {
		found = cmp.Or(found, full(fmt.Sprintf("Messages[%d].Parts", i), req.Messages[i].Parts))
	}
	return found
}

// inJSON is v as people read it, also where it holds pointers.
func inJSON(v reflect.Value) string {
	data, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprintf("%+v", v.Interface())
	}
	return string(data)
}

// goroutines are the heads of the stacks of those in the bubble of who asks.
func goroutines() []string {
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	var heads []string
	bubble := ""
	for stack := range strings.SplitSeq(string(buf[:n]), "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
		_, of, ok := strings.Cut(head, "synctest bubble ")
		switch {
		case !ok:
		case bubble == "": // the first is who asks
			bubble = of
			heads = append(heads, head)
		case of == bubble:
			heads = append(heads, head)
		}
	}
	return heads
}
