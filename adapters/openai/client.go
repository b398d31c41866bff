package openai

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// Client is the SDK's client for the same API: embeddings, moderation, transcription, images. It uses m's address, key,
// headers and http.Client, and its failures are *llm.Error values, classified and with the evidence that the SDK on its own
// loses; an error object or a page that comes with status 200 is a failure too. Guard its calls with [llm.Do]; what
// fn returns there may pass through [Model.AsError], which classifies the SDK's own errors as well.
func (m *Model) Client() *sdk.Client {
	cfg := sdk.DefaultConfig("")
	base := *m.base
	base.RawQuery = ""
	if m.dash.azure && m.cfg.APIVersion != "" {
		cfg.APIVersion = m.cfg.APIVersion
		if !strings.Contains(base.Path, "/deployments/") {
			cfg.APIType = sdk.APITypeAzure
			cfg.AzureModelMapperFunc = func(model string) string { return model }
			base.Path = strings.TrimSuffix(base.Path, "/openai") // the SDK adds it
		}
	}
	cfg.BaseURL = base.String()
	cfg.HTTPClient = doer{m}
	return sdk.NewClientWithConfig(cfg)
}

// doer is what the SDK's client makes its requests by.
type doer struct{ m *Model }

// Do makes one request. A failing answer comes back as an error, since the SDK would lose half of it.
func (d doer) Do(r *http.Request) (*http.Response, error) {
	c := d.m.newCall(r.Context(), nil)
	key, err := c.Ask()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.Open()
	r = r.Clone(ctx)
	c.Sign(r.Header, key)
	if own := d.m.base.Query(); len(own) > 0 {
		q := r.URL.Query()
		maps.Copy(q, own)
		r.URL.RawQuery = q.Encode()
	}
	resp, err := d.m.client.Do(r)
	if err != nil {
		cancel()
		return nil, c.Fail(&llm.Error{Err: adapter.Plain(err)})
	}
	c.Head(resp)
	if err := c.check(resp); err != nil {
		cancel()
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// check is the error of an answer that is a failure. It reads the start of the others and puts it back.
func (c *call) check(resp *http.Response) error {
	if err := c.Failed(resp); err != nil {
		return err
	}
	kind := adapter.MediaType(resp.Header)
	raw := resp.Body
	resp.Body = &watched{call: c, in: raw, body: raw}
	switch {
	case kind == "text/event-stream":
		c.Phase = llm.PhaseStream
		return nil
	case resp.StatusCode == http.StatusNoContent:
		return nil
	}
	c.Phase = llm.PhaseBody
	const sample = 4 << 10
	in := bufio.NewReaderSize(resp.Body, sample)
	data, err := in.Peek(sample)
	resp.Body = &watched{call: c, in: in, body: raw}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err // classified already
	case kind == "text/html", len(data) == 0:
		return c.Fail(&llm.Error{Evidence: llm.Evidence{Body: wire.Start(data)}})
	}
	var ch chunk
	if _, ok := ch.parse(data); ok && (ch.failure != nil && len(ch.id) == 0 || ch.isError) {
		return c.Fail(&llm.Error{Evidence: llm.Evidence{Body: wire.Start(data)}})
	}
	return nil
}

// watched is a body whose read errors are classified.
type watched struct {
	*call
	in   io.Reader
	body io.ReadCloser
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if _, ok := errors.AsType[*llm.Error](err); !ok {
		err = w.Fail(&llm.Error{Err: adapter.Plain(err)})
	}
	return n, err
}

func (w *watched) Close() error {
	w.Cancel()
	return w.body.Close()
}
