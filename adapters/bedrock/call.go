package bedrock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

const (
	// maxAnswer bounds an answer in bytes; images inside answers stay far below.
	maxAnswer = 32 << 20
	// failureGrace bounds the wait for the body of a failure whose status and headers are known already.
	failureGrace = time.Second

	eventStream = "application/vnd.amazon.eventstream"
)

// A call is one request on its way.
type call struct {
	m       *Model
	ctx     context.Context //nolint:containedctx // the caller's, for as long as its call
	cancel  context.CancelFunc
	req     *llm.Request
	model   string
	secrets []string
	x       *wire.Exchange
	resp    *http.Response
	phase   llm.Phase // of the answer; PhaseUnknown before it
	answer  answer
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
	creds, key, bad := c.m.identify(c.ctx)
	if bad != nil {
		return nil, c.unsent(bad)
	}
	c.secrets = c.m.secretsWith(creds, key)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.cancel = cancel
	ctx, c.x = wire.Watch(ctx)
	c.answer.sink = c.req.Sink
	err := c.send(ctx, payload, creds, key)
	if c.resp == nil {
		e := &llm.Error{Err: plain(err)}
		if c.x.Requests() == 0 { // the SDK could not make a request of it
			e.Evidence.Phase = llm.PhaseConnect
			if c.ctx.Err() == nil {
				e.Class = llm.Invalid
			}
		}
		return nil, c.fail(e)
	}
	defer c.resp.Body.Close() //nolint:errcheck // nothing can be done about it
	c.phase = llm.PhaseHeaders
	return c.read(c.resp)
}

// send has the SDK make the request. The answer is in c.resp, if there is one.
func (c *call) send(ctx context.Context, payload []byte, creds aws.Credentials, key string) (err error) {
	with := func(result any) func(*bedrockruntime.Options) {
		return func(o *bedrockruntime.Options) {
			o.APIOptions = append(o.APIOptions, c.apiOptions(payload, key, result))
			if creds.HasKeys() {
				o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return creds, nil })
			}
			sign(o)
		}
	}
	if c.req.Sink != nil {
		in := &bedrockruntime.ConverseStreamInput{ModelId: &c.model}
		_, err = c.m.client.ConverseStream(ctx, in, with(&bedrockruntime.ConverseStreamOutput{}))
	} else {
		_, err = c.m.client.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: &c.model}, with(&bedrockruntime.ConverseOutput{}))
	}
	return err
}

// read reads the answer in whatever form it came: behind a gateway a stream may come in one piece, or the other way round.
// The length that a frame begins with is below 16 MiB, so its first byte is 0, which no text begins with.
func (c *call) read(resp *http.Response) (*llm.Response, error) {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		stop := time.AfterFunc(failureGrace, c.cancel)
		body, _ := wire.ReadBody(resp.Body) // what came before a break is what there is
		stop.Stop()
		return nil, c.fail(&llm.Error{Evidence: llm.Evidence{Body: body}})
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	c.phase = llm.PhaseBody
	if kind == eventStream {
		c.phase = llm.PhaseStream
	}
	in := bufio.NewReader(resp.Body)
	first, err := in.Peek(1)
	switch {
	case err == nil && first[0] == 0, kind == eventStream && errors.Is(err, io.EOF):
		return c.stream(in)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, c.fail(&llm.Error{Err: plain(err)})
	}
	return c.whole(in)
}

// whole reads an answer that came in one piece.
func (c *call) whole(in io.Reader) (*llm.Response, error) {
	c.phase = llm.PhaseBody
	data, err := io.ReadAll(io.LimitReader(in, int64(c.m.most)+1))
	switch {
	case err != nil:
		return nil, c.fail(&llm.Error{Err: plain(err), Evidence: llm.Evidence{Body: start(data)}})
	case len(data) > c.m.most:
		return nil, c.tooLarge()
	}
	blocks, ok := c.answer.envelope(data)
	if !ok {
		return nil, c.fail(&llm.Error{Evidence: llm.Evidence{Body: start(data)}})
	}
	for i, b := range blocks {
		if err := c.answer.block(i, b); err != nil {
			return nil, c.sinkFailed(err)
		}
	}
	return c.finish(start(data))
}

// finish is the answer once all of it has come.
func (c *call) finish(evidence string) (*llm.Response, error) {
	a := &c.answer
	ev := llm.Evidence{Body: evidence, Code: a.stop}
	switch {
	case a.stop == "model_context_window_exceeded":
		return nil, c.fail(&llm.Error{Class: llm.TooLong, Message: "the model's window was full before the answer was complete",
			Evidence: ev})
	case strings.HasPrefix(a.stop, "malformed_"):
		return nil, c.fail(&llm.Error{Class: llm.BadOutput, Message: "the model's output was malformed", Evidence: ev})
	}
	r := a.response()
	for _, t := range r.ToolCalls() {
		if !json.Valid(t.Arguments) {
			return nil, c.fail(&llm.Error{
				Class: llm.BadOutput, Message: "the arguments of the tool call \"" + t.Name + "\" are not complete JSON", Evidence: ev,
			})
		}
	}
	r.Usage = c.usage()
	r.RequestID, r.Status = c.requestID(), c.resp.StatusCode
	fillIn(&r.Model, c.model)
	return r, nil
}

func (c *call) tooLarge() error {
	return c.fail(&llm.Error{Class: llm.BadOutput, Message: fmt.Sprintf("the answer is larger than %d KiB", c.m.most>>10)})
}

// usage is what the provider told, or an estimate from what came: it tells at the end.
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

// requestID is the provider's id of this call.
func (c *call) requestID() string {
	if c.resp == nil {
		return ""
	}
	return c.resp.Header.Get("X-Amzn-Requestid")
}

// start is what of a body goes into the evidence.
func start(b []byte) string { return string(b[:min(len(b), wire.MaxBody)]) }
