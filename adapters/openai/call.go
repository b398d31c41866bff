package openai

import (
	"context"

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
	reader reader
	answer answer
	chunk  chunk // what the reader of chats reads
}

// newCall begins a call. req is nil for those of the SDK's client.
func (m *Model) newCall(ctx context.Context, req *llm.Request) *call {
	c := &call{m: m}
	c.reader = m.api.reader(c)
	c.answer.sink = c.Init(ctx, c, m.account, req, maxAnswer)
	return c
}

func (c *call) do() (*llm.Response, error) {
	payload, err := c.Begin(func(req *llm.Request) ([]byte, string, *llm.Error) { return c.m.api.encode(c.m, req) })
	if err != nil {
		return nil, err
	}
	return c.Post(c.m.client, c.m.url(c.Model), payload)
}

// Whole reads an answer that came in one piece.
func (c *call) Whole(data []byte) (*llm.Response, error) {
	c.answer.sink = nil
	rest, ok := c.reader.parse(data)
	if !ok || len(rest) > 0 {
		return nil, c.NoAnswer(c.reader.quotes(data))
	}
	if failure := c.reader.reports(data); failure != nil {
		c.reader.note(&c.answer)
		return nil, c.InBand(failure)
	}
	if !c.reader.isAnswer() {
		return nil, c.NoAnswer(c.reader.quotes(data))
	}
	if err := c.reader.take(&c.answer); err != nil {
		return nil, c.SinkFailed(err)
	}
	if c.reader.lossy() {
		return nil, c.Lost(c.reader.quotes(data))
	}
	if err := c.reader.close(&c.answer); err != nil {
		return nil, c.SinkFailed(err)
	}
	return c.finish(wire.Start(c.reader.quotes(data)))
}

// finish is the answer once all of it has come.
func (c *call) finish(evidence string) (*llm.Response, error) {
	a := &c.answer
	if e := c.reader.broken(a, evidence); e != nil {
		return nil, c.Fail(e)
	}
	r := c.reader.response(a, c.Provider)
	if r.Stop == llm.StopLength && a.n == 0 && a.usage.Input > 0 && a.usage.Output == 0 {
		return nil, c.Fail(&llm.Error{
			Class: llm.TooLong, Message: "the input left no room for an answer", Evidence: llm.Evidence{Body: evidence},
		})
	}
	return c.Deliver(r, llm.Evidence{Body: evidence, Code: a.finish})
}

// Partial is what has come of the answer.
func (c *call) Partial() *llm.Response {
	r := c.answer.acc.Partial()
	if r != nil {
		r.Model, r.StopDetail = c.answer.model, c.answer.finish
	}
	return r
}

// Begun reports whether content has come.
func (c *call) Begun() bool { return c.answer.n > 0 }

// Usage is what the provider told, or an estimate from what came.
func (c *call) Usage() llm.Usage { return c.Estimate(c.answer.usage, c.answer.counted, c.answer.out) }

// RequestID is the provider's id of this call: that of its log, or of the answer itself.
func (c *call) RequestID() string {
	id := c.FirstHeader("X-Request-Id", "Request-Id", "Apim-Request-Id", "X-Ms-Request-Id")
	adapter.FillIn(&id, c.answer.id)
	return id
}
