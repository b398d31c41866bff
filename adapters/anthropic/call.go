package anthropic

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

const (
	// maxAnswer bounds a whole answer in bytes.
	maxAnswer = 32 << 20
	// failureGrace bounds the wait for the body of a failure whose status and headers are known already.
	failureGrace = time.Second
)

// A call is one request on its way.
type call struct {
	m      *Model
	ctx    context.Context //nolint:containedctx // the caller's, for as long as its call
	cancel context.CancelFunc
	req    *llm.Request
	model  string
	key    string
	x      *wire.Exchange
	resp   *http.Response
	phase  llm.Phase // of the answer; PhaseUnknown before it
	answer answer
}

func (c *call) do() (*llm.Response, error) {
	if c.req == nil {
		return nil, c.fail(invalid("the request is nil; pass a *llm.Request with messages"))
	}
	if e := llm.ContextError(c.ctx, nil); e != nil {
		return nil, c.fail(e)
	}
	payload, model, bad := c.m.encode(c.req)
	c.model = model
	if bad != nil {
		return nil, c.fail(bad)
	}
	key, bad := c.m.keyFor(c.ctx)
	if bad != nil {
		return nil, c.fail(bad)
	}
	c.key = key
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.cancel = cancel
	ctx, c.x = wire.Watch(ctx)
	c.answer.sink = c.req.Sink
	var raw *http.Response
	err := c.m.client.Post(ctx, messagesPath, payload, &raw, option.WithMiddleware(c.exchange))
	if c.resp == nil {
		return nil, c.fail(&llm.Error{Err: plain(err)})
	}
	defer c.resp.Body.Close() //nolint:errcheck // nothing can be done about it
	c.phase = llm.PhaseHeaders
	return c.read(c.resp)
}

// errRead keeps the SDK from reading a failure, of which it would lose half and read all, however long.
var errRead = errors.New("read by the adapter")

// exchange is the SDK's innermost middleware.
func (c *call) exchange(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	c.m.setHeader(r.Header, c.key)
	resp, err := next(r)
	if err != nil {
		return nil, err
	}
	c.resp = resp
	if resp.StatusCode >= 400 {
		return nil, errRead
	}
	return resp, nil
}

// read reads the answer in whatever form it came: a server may answer a request for a stream in one piece, or the other way
// round.
func (c *call) read(resp *http.Response) (*llm.Response, error) {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		stop := time.AfterFunc(failureGrace, c.cancel)
		body, _ := wire.ReadBody(resp.Body) // what came before a break is what there is
		stop.Stop()
		return nil, c.fail(&llm.Error{Evidence: llm.Evidence{Body: body}})
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		return c.stream(resp.Body)
	}
	in := bufio.NewReader(resp.Body)
	if kind != "application/json" && c.req.Sink != nil && c.framed(in) { // a stream under another name
		return c.stream(in)
	}
	return c.whole(in)
}

// framed reports whether what comes is neither JSON nor HTML.
func (c *call) framed(in *bufio.Reader) bool {
	c.phase = llm.PhaseBody
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

// whole reads an answer that came in one piece.
func (c *call) whole(in io.Reader) (*llm.Response, error) {
	c.phase = llm.PhaseBody
	data, err := io.ReadAll(io.LimitReader(in, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.fail(&llm.Error{Err: plain(err), Evidence: llm.Evidence{Body: start(data)}})
	case len(data) > maxAnswer:
		return nil, c.fail(&llm.Error{Class: llm.BadOutput, Message: "the answer is larger than 32 MiB"})
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !json.Valid(data) {
		return nil, c.fail(&llm.Error{Evidence: llm.Evidence{Body: start(data)}})
	}
	msg := gjson.ParseBytes(data)
	if !msg.Get("content").IsArray() || msg.Get("error").IsObject() {
		return nil, c.fail(&llm.Error{Evidence: llm.Evidence{Body: start(data)}})
	}
	if err := c.answer.whole(msg); err != nil {
		return nil, c.sinkFailed(err)
	}
	return c.finish(start(data))
}

// finish is the answer once all of it has come.
func (c *call) finish(evidence string) (*llm.Response, error) {
	a := &c.answer
	ev := llm.Evidence{Body: evidence, Code: a.stop}
	if a.stop == stopWindow {
		return nil, c.fail(&llm.Error{Class: llm.TooLong, Message: "the model's window was full before the answer was complete",
			Evidence: ev})
	}
	r := a.response()
	for _, t := range r.ToolCalls() {
		if !json.Valid(t.Arguments) {
			return nil, c.fail(&llm.Error{
				Class: llm.BadOutput, Message: "the arguments of the tool call \"" + t.Name + "\" are not complete JSON", Evidence: ev,
			})
		}
	}
	r.Usage = a.tokens()
	r.RequestID, r.Status = c.requestID(), c.resp.StatusCode
	fillIn(&r.Model, c.model)
	return r, nil
}

// requestID is the provider's id of this call: that of its log, or of the answer itself.
func (c *call) requestID() string {
	if c.resp != nil {
		for _, name := range [...]string{"Request-Id", "X-Request-Id"} {
			if v := c.resp.Header[name]; len(v) > 0 && v[0] != "" {
				return v[0]
			}
		}
	}
	if c.answer.requestID != "" {
		return c.answer.requestID
	}
	return c.answer.id
}

// start is what of a body goes into the evidence.
func start(b []byte) string { return string(b[:min(len(b), wire.MaxBody)]) }
