// Package anthropic speaks to Anthropic's Messages API and to everything that speaks like it.
//
// A [Model] makes exactly one HTTP request a call: it neither retries nor waits, which is what the stages around it are for.
// Whatever goes wrong comes back as an *llm.Error that is already classified and carries what the wire showed: status,
// headers, type, the start of the body, how far the request got and what had arrived of the answer. Keys are taken out of
// all of it.
//
// Requests are built by, and sent through, the official github.com/anthropics/anthropic-sdk-go with its retries, its spans
// and its look at the environment off; [Model.Client] gives its client for calls that are no messages. Answers and failures
// are read here, over the same http.Client: the SDK takes a stream that ends too early, a page, or an error without framing
// for a good end.
//
// What has no place in this library's vocabulary passes through Extra["anthropic"]. That of a Request is merged into the
// body: thinking, metadata, server tools. That of a Part is merged into its block: cache_control, citations. A Part of an
// answer carries there what its block had beyond text and call, such as the signature of a thinking block, and giving the
// Part back unchanged gives the API its block back. A block without a counterpart, such as redacted thinking or the
// traffic of a server tool, is a reasoning Part without text that holds the whole block.
package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

const (
	// DefaultMaxTokens is the bound of an answer where neither the request nor the configuration has one: the API demands one,
	// and this is one that every current model takes. An answer that meets it ends with llm.StopLength. Thinking counts against it.
	DefaultMaxTokens = 8192

	defaultBaseURL = "https://api.anthropic.com"
	defaultHeader  = "X-Api-Key"
	bearer         = "Authorization"
	messagesPath   = "v1/messages"
	// extraName is the key of Extra that is meant for this API, whatever the provider is called.
	extraName = "anthropic"
)

// A Config says where a [Model] is and how to speak to it. The zero value is Anthropic without a key.
type Config struct {
	// Provider names whose API it is. It stands in errors, selects the classifier's rows, and is a key of Request.Extra and
	// Part.Extra beside "anthropic". "": "anthropic".
	Provider string
	// BaseURL is the root of the API, what comes before /v1/messages. "": https://api.anthropic.com.
	BaseURL string
	// APIKey is the key. Key is asked for it before each call instead, so that keys can rotate; its error ends the call. Set
	// one of them at most. Neither: no key is sent.
	APIKey string
	Key    func(context.Context) (string, error)
	// Model is sent for requests that name none. "": they must.
	Model string
	// MaxTokens bounds the answers of requests that set no bound. 0: DefaultMaxTokens.
	MaxTokens int

	// Header is sent with each request, over what the adapter sends itself: Anthropic-Beta belongs here.
	Header http.Header
	// HTTPClient makes the requests; its Transport is wrapped and does the work. Its Timeout spans whole streams: rather leave
	// it 0 and let an attempt timeout guard the call. nil: a plain client.
	HTTPClient *http.Client
	// KeyHeader is the header that carries the key. "": "X-Api-Key". "Authorization" carries it with "Bearer " before it, as
	// OAuth tokens and many gateways want it.
	KeyHeader string
}

// A Model is an [llm.Caller] for one API. It is immutable and safe for concurrent use.
type Model struct {
	cfg    Config // with the defaults filled in
	client sdk.Client
}

// String says where c leads, without keys.
func (c Config) String() string { return strings.TrimSpace(c.Provider + " " + c.Model) }

// String says where m leads, without keys.
func (m *Model) String() string { return m.cfg.String() }

// New makes a Model. A mistake in the configuration panics: it is the program's, and no call would work.
func New(cfg Config) *Model {
	m, err := newModel(cfg)
	if err != nil {
		panic("llm/adapters/anthropic: New: " + err.Error())
	}
	return m
}

func newModel(cfg Config) (*Model, error) {
	fillIn(&cfg.Provider, extraName)
	fillIn(&cfg.BaseURL, defaultBaseURL)
	fillIn(&cfg.KeyHeader, defaultHeader)
	if cfg.MaxTokens == 0 {
		cfg.MaxTokens = DefaultMaxTokens
	}
	if err := check(&cfg); err != nil {
		return nil, err
	}
	base, err := baseURL(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	cfg.Header = cfg.Header.Clone()
	return &Model{cfg: cfg, client: sdk.Client{Options: []option.RequestOption{
		option.WithBaseURL(base), option.WithHTTPClient(wire.Client(cfg.HTTPClient)),
		option.WithMaxRetries(0), option.WithoutOpenTelemetry(),
	}}}, nil
}

func fillIn(s *string, other string) {
	if *s == "" {
		*s = other
	}
}

func check(cfg *Config) error {
	switch {
	case cfg.APIKey != "" && cfg.Key != nil:
		return errors.New("both APIKey and Key are set; set one")
	case !validKey(cfg.APIKey):
		return errors.New("APIKey has blanks or control characters in it, such as a line break from a file; trim it")
	case cfg.MaxTokens < 0:
		return fmt.Errorf("MaxTokens is %d; use 0 for the default", cfg.MaxTokens)
	case !validName(cfg.KeyHeader):
		return fmt.Errorf("KeyHeader %q is no header name", cfg.KeyHeader)
	}
	for name, values := range cfg.Header {
		if !validName(name) {
			return fmt.Errorf("%q in Header is no header name", name)
		}
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") {
				return fmt.Errorf("%q in Header has a line break in its value", name)
			}
		}
	}
	return nil
}

func validKey(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] >= 0x7f {
			return false
		}
	}
	return true
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("()<>@,;:\\\"/[]?={}", c) >= 0 {
			return false
		}
	}
	return name != ""
}

func baseURL(base string) (string, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return "", errors.New("BaseURL is no URL") // the parser's text repeats it, keys and all
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", errors.New("BaseURL must begin with http:// or https:// and a host")
	case u.RawQuery != "":
		return "", errors.New("BaseURL has a query, which would get lost; put keys into APIKey or Header")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/messages"), "/v1")
	u.RawPath, u.Fragment = "", ""
	return u.String(), nil
}

// Call makes one request. With req.Sink set the answer is streamed. The error is an *llm.Error.
func (m *Model) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	c := &call{m: m, ctx: ctx, req: req}
	resp, err := c.do()
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// Client is the SDK's client for the same API: counting tokens, batches, models, files. It uses m's address, key, headers
// and http.Client, reads the environment for nothing and never retries. Guard its calls with [llm.Do]; what fn returns
// there may pass through [Model.AsError], which makes the SDK's errors *llm.Error values with their class.
func (m *Model) Client() *sdk.Client {
	opts := append([]option.RequestOption{option.WithoutEnvironmentDefaults()}, m.client.Options...)
	c := sdk.NewClient(append(opts, option.WithMiddleware(m.prepare))...)
	return &c
}

// prepare is the middleware of Client.
func (m *Model) prepare(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	key, bad := m.keyFor(r.Context())
	if bad != nil {
		return nil, m.classified(r.Context(), bad, "")
	}
	m.setHeader(r.Header, key)
	resp, err := next(r)
	if err == nil && resp.StatusCode >= 400 { // the SDK reads failures whole
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, wire.MaxBody), resp.Body}
	}
	return resp, err
}

// setHeader sets what identifies the caller, and what the configuration says.
func (m *Model) setHeader(h http.Header, key string) {
	if key != "" {
		if strings.EqualFold(m.cfg.KeyHeader, bearer) {
			key = "Bearer " + key
		}
		h.Set(m.cfg.KeyHeader, key)
	}
	for name, values := range m.cfg.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
}
