package gemini

import (
	"context"
	"io"
	"net/http"
	"net/url"

	sdk "google.golang.org/genai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
)

// placeholder stands in the SDK's requests until the key of the call takes its place: the SDK refuses to work without one.
const placeholder = "set-by-the-adapter"

// Client is the SDK's client for the same API: embeddings, counting tokens, files, caches, batches. It uses m's address, key,
// headers and http.Client and never repeats a request, and its failures are *llm.Error values, classified and with the
// evidence that the SDK on its own loses. Guard its calls with [llm.Do]; what fn returns there may pass through
// [Model.AsError], which classifies the SDK's own errors as well.
//
// It takes nothing from the environment, but the SDK logs a line where the environment names another key or project.
func (m *Model) Client(ctx context.Context) (*sdk.Client, error) {
	own := *m.client
	own.Transport = doer{m, own.Transport}
	cfg := &sdk.ClientConfig{
		Backend: sdk.BackendGeminiAPI, HTTPClient: &own,
		HTTPOptions: sdk.HTTPOptions{BaseURL: m.base.root, APIVersion: m.base.version},
	}
	if m.vertex {
		cfg.Backend, cfg.Project, cfg.Location = sdk.BackendVertexAI, m.cfg.Project, m.cfg.Location
	}
	if m.cfg.Project == "" {
		cfg.APIKey = placeholder
	}
	return sdk.NewClient(ctx, cfg)
}

// doer is what the SDK's client makes its requests by.
type doer struct {
	m    *Model
	next http.RoundTripper
}

// RoundTrip makes one request. A failing answer comes back as an error, since the SDK would lose half of it.
func (d doer) RoundTrip(r *http.Request) (*http.Response, error) {
	c := d.m.newCall(r.Context(), nil)
	ctx, cancel := c.Open()
	r = r.Clone(ctx)
	r.Header.Del(apiKeyHeader)
	if d.m.at(r.URL) { // no other host must get the key
		key, err := c.Ask()
		if err != nil {
			cancel()
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
		c.Sign(r.Header, key)
	}
	resp, err := d.next.RoundTrip(r)
	if err != nil {
		cancel()
		return nil, c.Fail(&llm.Error{Err: adapter.Plain(err)})
	}
	if resp.StatusCode < 400 {
		resp.Body = &watched{call: c, ReadCloser: resp.Body}
		return resp, nil
	}
	defer cancel()
	defer resp.Body.Close() //nolint:errcheck // nothing can be done about it
	c.Head(resp)
	return nil, c.Failed(resp)
}

// at reports whether u is on the host that m speaks to.
func (m *Model) at(u *url.URL) bool { return u.Host == m.base.host && u.Scheme == m.base.scheme }

// watched is a body that ends its call when it is closed.
type watched struct {
	*call
	io.ReadCloser
}

func (w *watched) Close() error {
	w.Cancel()
	return w.ReadCloser.Close()
}
