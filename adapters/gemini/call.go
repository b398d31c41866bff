package gemini

import (
	"bytes"
	"context"
	"fmt"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// maxAnswer bounds an answer in bytes; images inside answers stay far below.
const maxAnswer = 64 << 20

// A call is one request on its way, and the answer that comes.
type call struct {
	adapter.Call
	m      *Model
	answer answer
}

// newCall begins a call. req is nil for those of the SDK's client.
func (m *Model) newCall(ctx context.Context, req *llm.Request) *call {
	c := &call{m: m}
	c.answer.Sink = c.Init(ctx, c, m.account, req, maxAnswer)
	return c
}

func (c *call) do() (*llm.Response, error) {
	payload, err := c.Begin(c.m.encode)
	if err != nil {
		return nil, err
	}
	method := "generateContent"
	if c.Req.Sink != nil {
		method = "streamGenerateContent?alt=sse"
	}
	to, ok := c.m.url(c.Model, method)
	if !ok {
		return nil, c.Fail(adapter.Invalid("the model name %q is no name: it would lead to another place", c.Model))
	}
	return c.Post(c.m.client, to, payload)
}

// Whole reads an answer that came in one piece: a response, or the list of the chunks of a stream, which is what the API
// sends for one where alt=sse got lost on the way.
func (c *call) Whole(data []byte) (*llm.Response, error) {
	c.answer.Sink = nil
	if !wire.IsJSON(data) {
		return nil, c.NoAnswer(data)
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
			if a.Begun() { // the error alone, not what came before it
				data = chunk
			}
			return nil, c.Fail(&llm.Error{Evidence: llm.Evidence{Body: wire.Start(data)}})
		}
	}
	switch {
	case a.Lost:
		return nil, c.Lost(data)
	case !a.begun:
		return nil, c.NoAnswer(data)
	case !a.finished() && isList(data):
		return nil, c.Unfinished()
	}
	return c.finish(wire.Start(data))
}

// take takes in one chunk of an answer.
func (c *call) take(chunk []byte) error {
	a := &c.answer
	err := a.add(chunk)
	switch {
	case err != nil:
		return c.SinkFailed(err)
	case a.unread != "":
		return c.Fail(adapter.Unsupported("%s", a.unread))
	case a.out > c.Most:
		return c.TooLarge()
	}
	return nil
}

// Unfinished is the error of an answer that came to its end in good order, without a finish reason.
func (c *call) Unfinished() error {
	e := &llm.Error{Class: llm.Interrupted, Message: "the stream ended without a finish reason"}
	if !c.answer.begun {
		e = &llm.Error{Class: llm.Unavailable, Message: "the stream ended before an answer"}
	}
	return c.Fail(e)
}

// finish is the answer once all of it has come.
func (c *call) finish(evidence string) (*llm.Response, error) {
	a := &c.answer
	if class := broken(a.finish); class != llm.Unknown {
		return nil, c.Fail(&llm.Error{
			Class: class, Message: "the provider ended the answer with the finish reason " + a.finish,
			Evidence: llm.Evidence{Body: evidence, Code: a.finish, Message: a.message},
		})
	}
	if err := a.close(); err != nil {
		return nil, c.SinkFailed(err)
	}
	r := a.response()
	for _, t := range r.ToolCalls() {
		if !wire.IsObject(t.Arguments) {
			return nil, c.Fail(&llm.Error{
				Class: llm.BadOutput, Message: fmt.Sprintf("the arguments of the tool call %q are no JSON object", t.Name),
				Evidence: llm.Evidence{Body: evidence, Code: a.finish},
			})
		}
	}
	return c.Deliver(r, llm.Evidence{Body: evidence, Code: a.finish})
}

// Partial is what has come of the answer.
func (c *call) Partial() *llm.Response { return c.answer.partial() }

// Begun reports whether content has come.
func (c *call) Begun() bool { return c.answer.Begun() }

// Usage is what is known of the usage.
func (c *call) Usage() llm.Usage {
	return c.Estimate(c.answer.tokens(), c.answer.usage.told, c.answer.out)
}

// RequestID is the provider's id of this call: that of the answer, or of a gateway's or a server's log.
func (c *call) RequestID() string {
	if c.answer.id != "" {
		return c.answer.id
	}
	return c.FirstHeader("X-Request-Id", "X-Goog-Request-Id", "Request-Id")
}
