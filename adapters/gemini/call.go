package gemini

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

const (
	// maxAnswer bounds a whole answer in bytes; images inside answers stay far below.
	maxAnswer = 64 << 20
	// failureGrace bounds the wait for the body of a failure whose status and headers are known already.
	failureGrace = time.Second
)

// A call is one request on its way, made for the caller whose context is ctx.
type call struct {
	m      *Model
	ctx    context.Context //nolint:containedctx // a call is not kept beyond it
	cancel context.CancelFunc
	req    *llm.Request
	model  string
	key    string
	x      *wire.Exchange
	status int
	header http.Header
	phase  llm.Phase // of the answer; PhaseUnknown before it
	answer answer
}

func (c *call) do() (*llm.Response, error) {
	if c.req == nil {
		return nil, c.fail(invalid("the request is nil; pass a *llm.Request with messages"))
	}
	if e := llm.ContextError(c.ctx, nil); e != nil {
		return nil, c.unsent(e)
	}
	payload, model, bad := c.m.encode(c.req)
	c.model = model
	if bad != nil {
		return nil, c.fail(bad)
	}
	method, accept := "generateContent", "application/json"
	if c.req.Sink != nil {
		method, accept = "streamGenerateContent?alt=sse", "text/event-stream, application/json"
	}
	to, ok := c.m.url(model, method)
	if !ok {
		return nil, c.fail(invalid("the model name %q is no name: it would lead to another place", model))
	}
	key, bad := c.m.keyFor(c.ctx)
	if bad != nil {
		return nil, c.unsent(bad)
	}
	c.key = key
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.cancel = cancel
	ctx, c.x = wire.Watch(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(payload))
	if err != nil {
		return nil, c.fail(&llm.Error{Class: llm.Invalid, Err: err})
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	c.m.setHeader(r.Header, key)
	resp, err := c.m.client.Do(r)
	if err != nil {
		return nil, c.fail(&llm.Error{Err: plain(err)})
	}
	defer resp.Body.Close() //nolint:errcheck // nothing can be done about it
	c.answer.sink = c.req.Sink
	return c.read(resp)
}

// read reads the answer in whatever form it came: a server may answer a request for a stream in one piece, or the other way
// round.
func (c *call) read(resp *http.Response) (*llm.Response, error) {
	c.status, c.header, c.phase = resp.StatusCode, resp.Header, llm.PhaseHeaders
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, c.failure(resp.Body)
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

// failure is the error of an answer whose status says so.
func (c *call) failure(in io.Reader) error {
	stop := time.AfterFunc(failureGrace, c.cancel)
	body, _ := wire.ReadBody(in) // what came before a break is what there is
	stop.Stop()
	return c.fail(&llm.Error{Evidence: llm.Evidence{Body: body}})
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

// whole reads an answer that came in one piece: a response, or the list of the chunks of a stream, which is what the API
// sends for one where alt=sse got lost on the way.
func (c *call) whole(in io.Reader) (*llm.Response, error) {
	c.phase = llm.PhaseBody
	data, err := io.ReadAll(io.LimitReader(in, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.fail(&llm.Error{Err: plain(err), Evidence: llm.Evidence{Body: start(data)}})
	case len(data) > maxAnswer:
		return nil, c.fail(&llm.Error{Class: llm.BadOutput, Message: "the answer is larger than 64 MiB"})
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !json.Valid(data) {
		return nil, c.fail(&llm.Error{Evidence: llm.Evidence{Body: start(data)}})
	}
	data = bytes.TrimSpace(data)
	chunks := [][]byte{data}
	if isList(data) {
		chunks = chunks[:0]
		w := walkOf(data)
		for w.more() {
			chunks = append(chunks, w.value())
		}
	}
	a := &c.answer
	for _, chunk := range chunks {
		if err := c.take(chunk); err != nil {
			return nil, err
		}
		if a.failed {
			if a.n > 0 { // the error alone, not what came before it
				data = chunk
			}
			return nil, c.fail(&llm.Error{Evidence: llm.Evidence{Body: start(data)}})
		}
	}
	switch {
	case !a.begun:
		return nil, c.fail(&llm.Error{Evidence: llm.Evidence{Body: start(data)}})
	case !a.finished() && isList(data):
		return nil, c.unfinished()
	}
	return c.finish(start(data))
}

// take takes in one chunk of an answer.
func (c *call) take(chunk []byte) error {
	a := &c.answer
	err := a.add(chunk)
	switch {
	case err != nil:
		return c.sinkFailed(err)
	case a.unread != "":
		return c.fail(unsupported("%s", a.unread))
	case a.out > maxAnswer:
		return c.fail(&llm.Error{Class: llm.BadOutput, Message: "the answer is larger than 64 MiB"})
	}
	return nil
}

// unfinished is the error of an answer that came to its end in good order, without a finish reason.
func (c *call) unfinished() error {
	e := &llm.Error{Class: llm.Interrupted, Message: "the stream ended without a finish reason"}
	if !c.answer.begun {
		e = &llm.Error{Class: llm.Unavailable, Message: "the stream ended before an answer"}
	}
	return c.fail(e)
}

// finish is the answer once all of it has come.
func (c *call) finish(evidence string) (*llm.Response, error) {
	a := &c.answer
	if class := broken(a.finish); class != llm.Unknown {
		return nil, c.fail(&llm.Error{
			Class: class, Message: "the provider ended the answer with the finish reason " + a.finish,
			Evidence: llm.Evidence{Body: evidence, Code: a.finish, Message: a.message},
		})
	}
	if err := a.close(); err != nil {
		return nil, c.sinkFailed(err)
	}
	r := a.response()
	for _, t := range r.ToolCalls() {
		if !isObject(t.Arguments) {
			return nil, c.fail(&llm.Error{
				Class: llm.BadOutput, Message: fmt.Sprintf("the arguments of the tool call %q are no JSON object", t.Name),
				Evidence: llm.Evidence{Body: evidence, Code: a.finish},
			})
		}
	}
	r.Usage = a.tokens()
	r.RequestID, r.Status = c.requestID(), c.status
	fillIn(&r.Model, c.model)
	return r, nil
}

// requestID is the provider's id of this call: that of the answer, or of a gateway's or a server's log.
func (c *call) requestID() string {
	if c.answer.id != "" {
		return c.answer.id
	}
	for _, name := range [...]string{"X-Request-Id", "X-Goog-Request-Id", "Request-Id"} {
		if v := c.header[name]; len(v) > 0 && v[0] != "" {
			return v[0]
		}
	}
	return ""
}

// start is what of a body goes into the evidence.
func start(b []byte) string { return string(b[:min(len(b), wire.MaxBody)]) }
