package openai

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
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
	reader reader
	answer answer
	chunk  chunk // what the reader of chats reads
}

func (c *call) do() (*llm.Response, error) {
	if c.req == nil {
		return nil, c.fail(invalid("the request is nil; pass a *llm.Request with messages"))
	}
	if e := llm.ContextError(c.ctx, nil); e != nil {
		return nil, c.unsent(e)
	}
	payload, model, bad := c.m.api.encode(c.m, c.req)
	c.model = model
	if bad != nil {
		return nil, c.fail(bad)
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
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.m.url(model), bytes.NewReader(payload))
	if err != nil {
		return nil, c.fail(&llm.Error{Class: llm.Invalid, Err: err})
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if c.req.Sink != nil {
		r.Header.Set("Accept", "text/event-stream, application/json")
	}
	c.m.setHeader(r.Header, key)
	resp, err := c.m.client.Do(r)
	if err != nil {
		return nil, c.fail(&llm.Error{Err: plain(err)})
	}
	defer resp.Body.Close() //nolint:errcheck // nothing can be done about it
	c.status, c.header, c.phase = resp.StatusCode, resp.Header, llm.PhaseHeaders
	c.answer.sink = c.req.Sink
	c.reader = c.m.api.reader(c)
	return c.read(resp)
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
	if kind != "application/json" && c.req.Sink != nil && c.unframed(in) { // a stream under another name
		return c.stream(in)
	}
	return c.whole(in)
}

// unframed reports whether what comes is neither JSON nor HTML.
func (c *call) unframed(in *bufio.Reader) bool {
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
		return nil, c.fail(&llm.Error{Class: llm.BadOutput, Message: "the answer is larger than 64 MiB"})
	}
	rest, ok := c.reader.parse(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if !ok || len(rest) > 0 || !c.reader.isAnswer() {
		return nil, c.fail(&llm.Error{Evidence: llm.Evidence{Body: start(data)}})
	}
	if err := c.reader.take(&c.answer); err != nil {
		return nil, c.sinkFailed(err)
	}
	if err := c.reader.close(&c.answer); err != nil {
		return nil, c.sinkFailed(err)
	}
	return c.finish(start(data))
}

// finish is the answer once all of it has come.
func (c *call) finish(evidence string) (*llm.Response, error) {
	a := &c.answer
	if e := c.reader.broken(a, evidence); e != nil {
		return nil, c.fail(e)
	}
	r := c.reader.response(a, c.m.cfg.Provider)
	if r.Stop == llm.StopLength && a.n == 0 && a.usage.Input > 0 && a.usage.Output == 0 {
		return nil, c.fail(&llm.Error{
			Class: llm.TooLong, Message: "the input left no room for an answer", Evidence: llm.Evidence{Body: evidence},
		})
	}
	for _, t := range r.ToolCalls() {
		if s := (scan{b: t.Arguments}); !s.whole() {
			return nil, c.fail(&llm.Error{
				Class: llm.BadOutput, Message: "the arguments of the tool call \"" + t.Name + "\" are not complete JSON",
				Evidence: llm.Evidence{Body: evidence, Code: a.finish},
			})
		}
	}
	r.Usage = c.usage()
	r.RequestID, r.Status = c.requestID(), c.status
	if r.Model == "" {
		r.Model = c.model
	}
	return r, nil
}

// usage is what the provider told, or an estimate from what came.
func (c *call) usage() llm.Usage {
	a := &c.answer
	switch {
	case a.counted:
		return a.usage
	case a.n == 0:
		return llm.Usage{}
	}
	return llm.Usage{Input: tokens(c.req), Output: max((a.out+3)/4, 1), Estimated: true}
}

// requestID is the provider's id of this call: that of its log, or of the answer itself.
func (c *call) requestID() string {
	for _, name := range [...]string{"X-Request-Id", "Request-Id", "Apim-Request-Id", "X-Ms-Request-Id"} {
		if v := c.header[name]; len(v) > 0 && v[0] != "" {
			return v[0]
		}
	}
	return c.answer.id
}

// start is what of a body goes into the evidence.
func start(b []byte) string { return string(b[:min(len(b), wire.MaxBody)]) }

// setHeader sets what identifies the caller, and what the configuration says.
func (m *Model) setHeader(h http.Header, key string) {
	if key != "" {
		if strings.EqualFold(m.cfg.KeyHeader, bearer) {
			key = "Bearer " + key
		}
		h.Set(m.cfg.KeyHeader, key)
	}
	if m.cfg.Organization != "" {
		h.Set("OpenAI-Organization", m.cfg.Organization)
	}
	if m.cfg.Project != "" {
		h.Set("OpenAI-Project", m.cfg.Project)
	}
	for name, values := range m.cfg.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
}
