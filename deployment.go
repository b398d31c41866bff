package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Capabilities is a set of what a deployment can do. The empty set means that nothing is known, and nothing is checked.
type Capabilities uint32

// The capabilities.
const (
	CanText      Capabilities = 1 << iota // text in, text out: a deployment that can do only this
	CanStream                             // streaming; without it an answer reaches the sink in one piece
	CanTools                              // tool calls
	CanImages                             // images in
	CanFiles                              // files in
	CanAudio                              // audio in
	CanJSON                               // answers in JSON
	CanSchema                             // answers by JSON Schema
	CanReasoning                          // reasoning effort
	CanPrefill                            // continues an assistant message that ends the conversation
)

var capabilityNames = [...]string{
	"text", "stream", "tools", "images", "files", "audio", "json", "schema", "reasoning", "prefill",
}

// String lists the capabilities: "text+tools".
func (c Capabilities) String() string {
	if c == 0 {
		return "unknown"
	}
	var names []string
	for i, name := range capabilityNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// needs is what a request asks of a deployment.
func needs(r *Request) Capabilities {
	var n Capabilities
	if len(r.Tools) > 0 {
		n |= CanTools
	}
	if r.Format != nil {
		switch r.Format.Kind {
		case FormatSchema:
			n |= CanSchema
		case FormatJSON:
			n |= CanJSON
		}
	}
	if r.Effort != "" {
		n |= CanReasoning
	}
	for i := range r.Messages {
		n |= needsOf(r.Messages[i].Parts)
	}
	if last := len(r.Messages) - 1; last >= 0 && r.Messages[last].Role == RoleAssistant {
		n |= CanPrefill
	}
	return n
}

func needsOf(parts []Part) (n Capabilities) {
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case PartImage:
			n |= CanImages
		case PartFile:
			n |= CanFiles
		case PartAudio:
			n |= CanAudio
		case PartToolResult:
			if p.Result != nil {
				n |= needsOf(p.Result.Parts)
			}
		}
	}
	return n
}

// A Deployment is the named leaf of an onion: one model of one provider behind one key. It is where attempts are made, so
// it alone enters them into the account, and it refuses at no cost what it cannot serve: a request beyond its window or
// capabilities, beyond MaxAttempts, or held back by a gate of an outer stage. It turns a panic of its Caller, an empty
// answer and a tool call whose arguments are not JSON into errors that name it.
//
// The fields must not be changed once it is in use.
type Deployment struct {
	// Name is how the account, cooldowns and metrics know it. Two deployments of one name are taken for the same.
	Name string
	// Provider is the provider's name in the GenAI conventions ("openai", "aws.bedrock"), Model the model sent to it. "": the
	// request's Model.
	Provider, Model string
	// Window is what fits into the model, input and output together, and MaxOutput the longest answer, in tokens. 0:
	// unknown, not checked.
	Window, MaxOutput int
	// Counter counts requests against Window. nil: the counter of a token router around it; without one the window is not
	// checked.
	Counter TokenCounter
	// Price is what it takes for a million tokens, in US dollars. The zero value: unknown.
	Price Price
	// Has is what it can do. 0: unknown, not checked.
	Has Capabilities
	// Quota and Credential are names shared with the deployments that share this one's rate limits or its key: a rate limit
	// rests all of the same Quota, an empty account all of the same Credential. "": its own.
	Quota, Credential string
	// Caller speaks to the model. It must not retry.
	Caller Caller
}

// PanicError is the cause of a failure where a model's Caller panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Describe is d as a leaf.
func (d *Deployment) Describe() Node { return Node{Name: d.Name, Deployment: d} }

func (d *Deployment) check() error {
	switch {
	case d == nil:
		return errors.New("the Deployment is nil")
	case d.Name == "":
		return errors.New("a Deployment has no Name; give it one, accounts and cooldowns are kept by it")
	case d.Caller == nil:
		return fmt.Errorf("Deployment %q has no Caller; set it to an adapter", d.Name)
	case d.Window < 0 || d.MaxOutput < 0:
		return fmt.Errorf("Deployment %q has a negative Window or MaxOutput; use 0 for unknown", d.Name)
	case !d.Price.sound():
		return fmt.Errorf("Deployment %q has a negative, infinite or NaN amount in its Price %+v; use US dollars for a million "+
			"tokens, or leave it out if nobody knows", d.Name, d.Price)
	}
	return nil
}

// fail is an error of d.
func (d *Deployment) fail(c Class, format string, args ...any) *Error {
	return d.own(&Error{Class: c, Message: fmt.Sprintf(format, args...)})
}

// own puts d's names on e, which d may write to.
func (d *Deployment) own(e *Error) *Error {
	e.Deployment = d.Name
	if e.Provider == "" {
		e.Provider = d.Provider
	}
	if e.Model == "" {
		e.Model = d.Model
	}
	if e.Owner == OwnerUnknown {
		e.Owner = e.Class.Owner()
	}
	return e
}

// Call makes one attempt.
func (d *Deployment) Call(ctx context.Context, req *Request) (*Response, error) {
	if req == nil {
		return nil, errNilRequest()
	}
	if d == nil {
		return nil, &Error{Class: Invalid, Owner: OwnerRequest, Message: "the Deployment is nil"}
	}
	r, c, outermost := begin(req)
	resp, err := d.attempt(ctx, r, c)
	if outermost {
		return c.finish(resp, err)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

func (d *Deployment) attempt(ctx context.Context, r *Request, c *call) (*Response, error) {
	if e := d.refuse(ctx, r); e != nil {
		return nil, r.Skipped(d.own(e))
	}
	now := time.Now()
	if err := r.Ask(ctx, d, now); err != nil {
		return nil, r.Skipped(d.own(CopyError(err)))
	}
	// One allocation for the answer and its row in the account.
	out := &struct {
		Response
		row [1]Attempt
	}{}
	a := &out.row[0]
	a.Deployment, a.Provider, a.Model, a.Start = d.Name, d.Provider, d.model(r), now
	if e := c.start(r.MaxAttempts, a); e != nil {
		return nil, r.Skipped(d.own(e))
	}
	gates := r.scope.gates().head.Load()
	actx, until, e := d.startGates(ctx, r, gates, a)
	ended := false
	end := func() []Attempt {
		ended = true
		for n := gates; n != until; n = n.next {
			n.gate.End(actx, r, d, a)
		}
		return c.end(&out.row)
	}
	if e != nil {
		e.Skipped = true
		a.Class, a.Skipped, a.Err = e.Class, e.text(), e
		end()
		return nil, e
	}
	l := leafCall{d: d, a: a, req: r}
	defer func() {
		if !ended { // the goroutine is ending: runtime.Goexit, or a panic of the sink on its way out
			a.Took, a.Commit = time.Since(a.Start), CommitUnknown
			a.Err, a.output = d.fail(Unknown, "the goroutine of the call ended"), l.output(&a.Usage, nil)
			end()
		}
	}()
	resp, err := l.call(actx)
	a.Took, a.reading = time.Since(a.Start), l.tap.read()
	if err != nil {
		e := l.failed(ctx, gates, err)
		a.Class, a.Status, a.RequestID = e.Class, e.Evidence.Status, e.RequestID
		a.Usage, a.Commit, a.Err = e.Usage, e.Commit, e
		a.output = l.output(&a.Usage, e.Partial)
		a.CostUSD, _ = d.Price.Cost(a.Usage)
		cp := *e
		cp.Attempts = end()
		return nil, &cp
	}
	a.Usage, a.RequestID, a.Commit, a.Status = resp.Usage, resp.RequestID, Committed, resp.Status
	a.CostUSD, _ = d.Price.Cost(a.Usage)
	a.output = l.output(&a.Usage, resp)
	out.Response = *resp
	out.Deployment, out.call, out.Attempts = d.Name, c, end()
	if out.Response.Model == "" {
		out.Response.Model = a.Model
	}
	return &out.Response, nil
}

func (d *Deployment) model(r *Request) string {
	if d.Model != "" {
		return d.Model
	}
	return r.Model
}

// startGates runs the gates' Start. until is the first gate whose End is not owed.
func (d *Deployment) startGates(
	ctx context.Context, r *Request, gates *gateNode, a *Attempt,
) (_ context.Context, until *gateNode, _ *Error) {
	for n := gates; n != nil; n = n.next {
		next, err := n.gate.Start(ctx, r, d, a)
		if err != nil {
			return ctx, n, d.own(CopyError(err))
		}
		ctx = next
	}
	return ctx, nil, nil
}

// Accepts says why d would refuse r before anything is sent: its window, its capabilities, a request that is malformed. nil: it
// would not.
func (d *Deployment) Accepts(ctx context.Context, r *Request) error {
	if r == nil {
		return errNilRequest()
	}
	if e := d.refuse(ctx, r); e != nil {
		return d.own(e)
	}
	return nil
}

// refuse says why d cannot serve r. Nothing is sent and nothing is spent.
func (d *Deployment) refuse(ctx context.Context, r *Request) *Error {
	if err := d.check(); err != nil && (d.Caller == nil || !d.Price.sound()) { // what a chain has not checked
		return &Error{Class: Invalid, Message: err.Error()}
	}
	if r.scope.extras().do == nil {
		if e := checkRequest(r); e != nil {
			return e
		}
	}
	if lacks := r.scope.extras().needs &^ d.Has; lacks != 0 {
		return d.fail(Unsupported, "the request is for deployments that declare %v; this one declares %v", lacks, d.Has)
	}
	if d.Has != 0 {
		if lacks := needs(r) &^ d.Has; lacks != 0 {
			return d.fail(Unsupported, "the request needs %v; this deployment has %v", lacks, d.Has)
		}
	}
	if d.MaxOutput > 0 && r.MaxTokens > d.MaxOutput {
		return d.fail(Unsupported, "the request asks for an answer of up to %d tokens; this deployment gives at most %d",
			r.MaxTokens, d.MaxOutput)
	}
	return d.fits(ctx, r)
}

func (d *Deployment) fits(ctx context.Context, r *Request) *Error {
	counter := d.Counter
	if counter == nil {
		counter = r.scope.extras().counter
	}
	if d.Window <= 0 {
		return nil
	}
	room := d.Window - r.MaxTokens
	if room <= 0 {
		return d.fail(TooLong, "the %d output tokens asked for leave no room for input in a window of %d", r.MaxTokens, d.Window)
	}
	if counter == nil {
		return nil
	}
	// A counter that fails leaves the verdict to the provider.
	if n, err := counter.CountTokens(ctx, r, room); err == nil && n > room {
		return d.fail(TooLong, "the input is about %d tokens or more; with %d asked for, a window of %d holds %d", n,
			r.MaxTokens, d.Window, room)
	}
	return nil
}

func checkRequest(r *Request) *Error {
	bad := func(format string, args ...any) *Error {
		return &Error{Class: Invalid, Message: fmt.Sprintf(format, args...)}
	}
	if len(r.Messages) == 0 && r.System == "" {
		return bad("the request has no messages; set Request.Messages")
	}
	if r.MaxTokens < 0 {
		return bad("Request.MaxTokens is %d; use 0 for no bound", r.MaxTokens)
	}
	if r.MaxAttempts < 0 {
		return bad("Request.MaxAttempts is %d; use 0 for no bound", r.MaxAttempts)
	}
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[j]
			switch {
			case p.Kind == PartToolCall && p.Call == nil:
				return bad("Messages[%d].Parts[%d] is a tool call without Call", i, j)
			case p.Kind == PartToolResult && p.Result == nil:
				return bad("Messages[%d].Parts[%d] is a tool result without Result", i, j)
			case (p.Kind == PartImage || p.Kind == PartFile || p.Kind == PartAudio) && len(p.Data) == 0 && p.URL == "":
				return bad("Messages[%d].Parts[%d] is of kind %s without Data or URL", i, j, p.Kind)
			}
		}
	}
	return nil
}
