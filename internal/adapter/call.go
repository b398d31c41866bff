package adapter

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

const (
	// EndGrace bounds how long an answer that said all is listened to for the end of its body, which lets the connection be
	// used again.
	EndGrace = 50 * time.Millisecond
	// failureGrace bounds the wait for the body of a failure whose status and headers are known already.
	failureGrace = time.Second
)

// An API reads the answers of one API. An adapter's call is one, around the [Call] that it embeds, and keeps what has come.
// The errors that it returns are those that the Call makes.
type API interface {
	// Whole reads an answer that came in one piece, which may also be an error, a page or nothing at all. It hands out nothing:
	// what is wrong with an answer may stand at its end.
	Whole(data []byte) (*llm.Response, error)
	// Stream reads one that comes piece by piece, by [Call.Follow] or [Call.Events].
	Stream(in io.Reader) (*llm.Response, error)
	// Partial is what has come of the answer's content, without calls whose arguments are not complete. nil: nothing.
	Partial() *llm.Response
	// Begun reports whether content has come.
	Begun() bool
	// Usage is what was consumed so far, as far as it is known.
	Usage() llm.Usage
	// RequestID is the provider's id of the call. "": none came.
	RequestID() string
}

// A Call is one HTTP request on its way, made for the caller whose context is Ctx, and how far it got. It is used by one
// goroutine.
type Call struct {
	*Account
	API API
	Ctx context.Context //nolint:containedctx // a call is not kept beyond it
	// Req is what is asked; nil for calls of an SDK's client.
	Req *llm.Request
	// Model is the model asked for, once that is known.
	Model string
	// Most is the largest answer in bytes.
	Most int
	// Secrets are the call's own: what its errors must not hold beside what the account has.
	Secrets []string

	// Cancel ends the request. nil: there is none yet.
	Cancel context.CancelFunc
	// Status, Header and Phase are the answer's, zero before there is one; Code is the provider's code of a failure, where the
	// headers tell it.
	Status int
	Header http.Header
	Phase  llm.Phase
	Code   string

	x          *wire.Exchange
	limited    bool          // left counts
	left       time.Duration // to wait for the stream
	loose      []byte
	cut        error             // what ended the input within the piece that is taken in. nil: the piece is complete
	ended      func(error) error // the error of a stream that ended so
	sinkFailed bool
}

// Init begins the call of an account that api reads, whose answer has at most so many bytes, and returns the caller's sink.
// req is nil for calls of an SDK's client.
func (c *Call) Init(ctx context.Context, api API, a *Account, req *llm.Request, most int) llm.Sink {
	c.API, c.Account, c.Ctx, c.Req, c.Most = api, a, ctx, req, most
	if req == nil {
		return nil
	}
	return req.Sink
}

// Begin is the body of the request by the adapter's encode, or the error of a call that cannot be made.
func (c *Call) Begin(encode func(*llm.Request) ([]byte, string, *llm.Error)) (payload []byte, _ error) {
	if c.Req == nil {
		return nil, c.Fail(Invalid("the request is nil; pass a *llm.Request with messages"))
	}
	if e := llm.ContextError(c.Ctx, nil); e != nil {
		return nil, c.Unsent(e)
	}
	payload, model, bad := encode(c.Req)
	c.Model = model
	if bad != nil {
		return nil, c.Fail(bad)
	}
	return payload, nil
}

// Ask asks for the key of the call, which stays out of its errors.
func (c *Call) Ask() (key string, _ error) {
	key, bad := c.KeyFor(c.Ctx)
	if bad != nil {
		return "", c.Unsent(bad)
	}
	if key != "" {
		c.Secrets = append(c.Secrets, key)
	}
	return key, nil
}

// Open derives the context of the request, whose way is noted from now on. The function ends the request, as Cancel does.
func (c *Call) Open() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(c.Ctx)
	c.Cancel = cancel
	ctx, c.x = wire.Watch(ctx)
	return ctx, cancel
}

// Requests is the number of requests that were made.
func (c *Call) Requests() int { return c.x.Requests() }

// Post makes the request by client and reads the answer.
func (c *Call) Post(client *http.Client, url string, payload []byte) (*llm.Response, error) {
	key, err := c.Ask()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.Open()
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return nil, c.Fail(&llm.Error{Class: llm.Invalid, Err: err})
	}
	r.Header.Set("Content-Type", jsonType)
	r.Header.Set("Accept", jsonType)
	if c.Req.Sink != nil {
		r.Header.Set("Accept", sseType+", "+jsonType)
	}
	c.Sign(r.Header, key)
	resp, err := client.Do(r)
	if err != nil {
		return nil, c.Fail(&llm.Error{Err: Plain(err)})
	}
	defer resp.Body.Close() //nolint:errcheck // nothing can be done about it
	return c.Read(resp)
}

const (
	jsonType = "application/json"
	sseType  = "text/event-stream"
)

// Head takes note of the head of the answer.
func (c *Call) Head(resp *http.Response) {
	c.Status, c.Header, c.Phase = resp.StatusCode, resp.Header, llm.PhaseHeaders
}

// Failed is the error of an answer whose status says that it is a failure, nil for the others.
func (c *Call) Failed(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	stop := time.AfterFunc(failureGrace, c.Cancel)
	body, _ := wire.ReadBody(resp.Body) // what came before a break is what there is
	stop.Stop()
	return c.Fail(&llm.Error{Evidence: llm.Evidence{Body: body}})
}

// Read reads an answer of JSON or server-sent events in whatever form it came: a server may answer a request for a stream in
// one piece, or the other way round.
func (c *Call) Read(resp *http.Response) (*llm.Response, error) {
	c.Head(resp)
	if err := c.Failed(resp); err != nil {
		return nil, err
	}
	kind := MediaType(resp.Header)
	if kind == sseType {
		return c.API.Stream(resp.Body)
	}
	in := bufio.NewReader(resp.Body)
	if kind != jsonType && c.Req.Sink != nil && c.framed(in) { // a stream under another name
		return c.API.Stream(in)
	}
	return c.ReadWhole(in)
}

// MediaType is the media type of an answer without parameters.
func MediaType(h http.Header) string {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind
}

// framed reports whether what comes is neither JSON nor HTML.
func (c *Call) framed(in *bufio.Reader) bool {
	c.Phase = llm.PhaseBody
	for n := 1; n <= in.Size(); n++ {
		b, err := in.Peek(n)
		if err != nil {
			return false
		}
		switch b[n-1] {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf:
		case '{', '[', '<':
			return false
		default:
			return true
		}
	}
	return false
}

// ReadWhole reads an answer that comes in one piece, without the byte order mark that some begin with.
func (c *Call) ReadWhole(in io.Reader) (*llm.Response, error) {
	c.Phase = llm.PhaseBody
	data, err := io.ReadAll(io.LimitReader(in, int64(c.Most)+1))
	switch {
	case err != nil:
		return nil, c.Fail(&llm.Error{Err: Plain(err), Evidence: llm.Evidence{Body: wire.Start(data)}})
	case len(data) > c.Most:
		return nil, c.TooLarge()
	}
	resp, err := c.API.Whole(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if err != nil {
		return nil, err
	}
	if err := llm.EmitWhole(c.Req, resp); err != nil {
		return nil, c.SinkFailed(err)
	}
	return resp, nil
}

// NoAnswer is the error of what came in one piece in the place of an answer: a failure in whatever form, a page, or nothing.
func (c *Call) NoAnswer(data []byte) error {
	if wire.IsObject(data) && Says(data) {
		return c.InBand(data)
	}
	err := c.Fail(&llm.Error{Evidence: llm.Evidence{Body: wire.Start(data)}})
	if e := llm.AsError(err); e.Class == llm.BadOutput {
		FillIn(&e.Message, misplaced(data))
	}
	return err
}

// misplaced says what stands in the place of an answer. "": nothing that has a name.
func misplaced(data []byte) string {
	switch facts := wire.Unwrap(wire.Start(data)); {
	case facts.Empty:
		return "the answer is empty"
	case facts.HTML:
		return "the answer is a page of HTML"
	}
	return ""
}

// Lost is the error of a whole answer that may hold content which cannot be read.
func (c *Call) Lost(answer []byte) error {
	return c.Fail(&llm.Error{
		Class: llm.BadOutput, Message: "a part of the answer cannot be read", Evidence: llm.Evidence{Body: wire.Start(answer)},
	})
}

// TooLarge is the error of an answer above the bound.
func (c *Call) TooLarge() error {
	size := fmt.Sprintf("%d MiB", c.Most>>20)
	if c.Most < 1<<20 {
		size = fmt.Sprintf("%d KiB", c.Most>>10)
	}
	return c.Fail(&llm.Error{Class: llm.BadOutput, Message: "the answer is larger than " + size})
}

// Deliver is r, all of which has come, with what is known of the call. ev is the evidence if r turns out not to be whole.
func (c *Call) Deliver(r *llm.Response, ev llm.Evidence) (*llm.Response, error) {
	for _, t := range r.ToolCalls() {
		if !wire.IsJSON(t.Arguments) {
			return nil, c.Fail(&llm.Error{
				Class: llm.BadOutput, Message: fmt.Sprintf("the arguments of the tool call %q are not complete JSON", t.Name), Evidence: ev,
			})
		}
	}
	c.account(r)
	return r, nil
}

// account puts on an answer, or a part of one, what is known of its call.
func (c *Call) account(r *llm.Response) {
	r.Usage, r.RequestID, r.Status = c.API.Usage(), c.API.RequestID(), c.Status
	FillIn(&r.Model, c.Model)
}

// FirstHeader is the first of some headers of the answer that is not empty. Their names are canonical.
func (c *Call) FirstHeader(names ...string) string {
	for _, name := range names {
		if v := c.Header[name]; len(v) > 0 && v[0] != "" {
			return v[0]
		}
	}
	return ""
}
