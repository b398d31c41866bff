package anthropic

import (
	"context"
	"errors"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// maxAnswer bounds an answer in bytes.
const maxAnswer = 32 << 20

// A call is one request on its way, and the answer that comes.
type call struct {
	adapter.Call
	m      *Model
	resp   *http.Response // once its head is there
	answer answer
}

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
	key, err := c.Ask()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.Open()
	defer cancel()
	var raw *http.Response
	err = c.m.client.Post(ctx, messagesPath, payload, &raw, option.WithMiddleware(
		func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			return c.exchange(r, next, key)
		},
	))
	if c.resp == nil {
		return nil, c.Fail(&llm.Error{Err: adapter.Plain(err)})
	}
	defer c.resp.Body.Close() //nolint:errcheck // nothing can be done about it
	return c.Read(c.resp)
}

// errRead keeps the SDK from reading a failure, of which it would lose half and read all, however long.
var errRead = errors.New("read by the adapter")

// exchange is the SDK's innermost middleware.
func (c *call) exchange(r *http.Request, next option.MiddlewareNext, key string) (*http.Response, error) {
	c.Sign(r.Header, key)
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

// Whole reads an answer that came in one piece.
func (c *call) Whole(data []byte) (*llm.Response, error) {
	c.answer.Sink = nil
	if !wire.IsJSON(data) {
		return nil, c.NoAnswer(data)
	}
	msg := gjson.ParseBytes(data)
	if failure := msg.Get("error"); !wire.IsVoid([]byte(failure.Raw)) {
		return nil, c.InBand(data)
	}
	if !msg.Get("content").IsArray() {
		return nil, c.NoAnswer(data)
	}
	if err := c.answer.whole(msg); err != nil {
		return nil, c.SinkFailed(err)
	}
	if c.answer.Lost {
		return nil, c.Lost(data)
	}
	return c.finish(wire.Start(data))
}

// finish is the answer once all of it has come.
func (c *call) finish(evidence string) (*llm.Response, error) {
	a := &c.answer
	ev := llm.Evidence{Body: evidence, Code: a.stop}
	if a.stop == stopWindow {
		return nil, c.Fail(&llm.Error{Class: llm.TooLong, Message: "the model's window was full before the answer was complete",
			Evidence: ev})
	}
	return c.Deliver(a.response(), ev)
}

// Partial is what has come of the answer.
func (c *call) Partial() *llm.Response { return c.answer.partial() }

// Begun reports whether content has come.
func (c *call) Begun() bool { return c.answer.Begun() }

// Usage is what is known of the usage.
func (c *call) Usage() llm.Usage { return c.answer.tokens() }

// RequestID is the provider's id of this call: that of its log, or of the answer itself.
func (c *call) RequestID() string {
	id := c.FirstHeader("Request-Id", "X-Request-Id")
	adapter.FillIn(&id, c.answer.requestID)
	adapter.FillIn(&id, c.answer.id)
	return id
}
