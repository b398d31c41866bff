package bedrock

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

const (
	// maxAnswer bounds an answer in bytes; images inside answers stay far below.
	maxAnswer = 32 << 20

	eventStream = "application/vnd.amazon.eventstream"
)

// A call is one request on its way, and the answer that comes.
type call struct {
	adapter.Call
	m      *Model
	resp   *http.Response // once its head is there
	answer answer
}

func (m *Model) newCall(ctx context.Context, req *llm.Request) *call {
	c := &call{m: m}
	c.answer.Sink = c.Init(ctx, c, m.account, req, m.most)
	return c
}

func (c *call) do() (*llm.Response, error) {
	payload, err := c.Begin(c.m.encode)
	if err != nil {
		return nil, err
	}
	creds, key, err := c.identify()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.Open()
	defer cancel()
	err = c.send(ctx, payload, creds, key)
	if c.resp == nil {
		e := &llm.Error{Err: plain(err)}
		if c.Requests() == 0 { // the SDK could not make a request of it
			e.Evidence.Phase = llm.PhaseConnect
			if c.Ctx.Err() == nil {
				e.Class = llm.Invalid
			}
		}
		return nil, c.Fail(e)
	}
	defer c.resp.Body.Close() //nolint:errcheck // nothing can be done about it
	return c.read(c.resp)
}

// identify is who the caller is: credentials, or a key, or nobody.
func (c *call) identify() (creds aws.Credentials, key string, err error) {
	if c.m.cfg.Credentials == nil {
		key, err = c.Ask()
		return creds, key, err
	}
	err = adapter.Guarded(func() (err error) {
		creds, err = c.m.cfg.Credentials.Retrieve(c.Ctx)
		return err
	})
	switch {
	case err != nil:
		return creds, "", c.Unsent(adapter.NoKey(c.Ctx, "no credentials could be had", err))
	case !creds.HasKeys():
		return creds, "", c.Unsent(adapter.NoKey(c.Ctx, "the credentials are empty", llm.Auth))
	}
	c.Secrets = []string{creds.SessionToken, creds.SecretAccessKey, creds.AccessKeyID}
	return creds, "", nil
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
	if c.Req.Sink != nil {
		in := &bedrockruntime.ConverseStreamInput{ModelId: &c.Model}
		_, err = c.m.client.ConverseStream(ctx, in, with(&bedrockruntime.ConverseStreamOutput{}))
	} else {
		_, err = c.m.client.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: &c.Model}, with(&bedrockruntime.ConverseOutput{}))
	}
	return err
}

// read reads the answer in whatever form it came: behind a gateway a stream may come in one piece, or the other way round.
// The length that a frame begins with is below 16 MiB, so its first byte is 0, which no text begins with.
func (c *call) read(resp *http.Response) (*llm.Response, error) {
	c.Head(resp)
	// The address of the exception's description may follow its name.
	c.Code, _, _ = strings.Cut(resp.Header.Get("X-Amzn-Errortype"), ":")
	if err := c.Failed(resp); err != nil {
		return nil, err
	}
	kind := adapter.MediaType(resp.Header)
	c.Phase = llm.PhaseBody
	if kind == eventStream {
		c.Phase = llm.PhaseStream
	}
	in := bufio.NewReader(resp.Body)
	first, err := in.Peek(1)
	switch {
	case err == nil && first[0] == 0, kind == eventStream && errors.Is(err, io.EOF):
		return c.Stream(in)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, c.Fail(&llm.Error{Err: plain(err)})
	}
	return c.ReadWhole(in)
}

// Whole reads an answer that came in one piece.
func (c *call) Whole(data []byte) (*llm.Response, error) {
	c.answer.Sink = nil
	blocks, ok := c.answer.envelope(data)
	switch {
	case ok:
	case wire.Find(wire.Members(data), []byte("__type")) != nil: // of an exception
		return nil, c.InBand(data)
	default:
		return nil, c.NoAnswer(data)
	}
	for i, b := range blocks {
		if err := c.answer.block(i, b); err != nil {
			return nil, c.SinkFailed(err)
		}
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
	switch {
	case a.stop == "model_context_window_exceeded":
		return nil, c.Fail(&llm.Error{Class: llm.TooLong, Message: "the model's window was full before the answer was complete",
			Evidence: ev})
	case strings.HasPrefix(a.stop, "malformed_"):
		return nil, c.Fail(&llm.Error{Class: llm.BadOutput, Message: "the model's output was malformed", Evidence: ev})
	}
	return c.Deliver(a.response(), ev)
}

// Partial is what has come of the answer.
func (c *call) Partial() *llm.Response { return c.answer.partial() }

// Begun reports whether content has come.
func (c *call) Begun() bool { return c.answer.Begun() }

// Usage is what the provider told, or an estimate from what came: it tells at the end.
func (c *call) Usage() llm.Usage { return c.Estimate(c.answer.usage, c.answer.counted, c.answer.out) }

// RequestID is the provider's id of this call.
func (c *call) RequestID() string { return c.FirstHeader("X-Amzn-Requestid") }
