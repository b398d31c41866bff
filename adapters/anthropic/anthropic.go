package anthropic

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

const (
	// DefaultMaxTokens is the bound of an answer where neither the request nor the configuration has one: the API demands one,
	// and this is one that every current model takes. An answer that meets it ends with llm.StopLength. Thinking counts against it.
	DefaultMaxTokens = 8192

	defaultBaseURL = "https://api.anthropic.com"
	defaultHeader  = "X-Api-Key"
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
	// account is who calls.
	account *adapter.Account
}

// String says where c leads, without keys.
func (c Config) String() string { return strings.TrimSpace(c.Provider + " " + c.Model) }

// String says where m leads, without keys.
func (m *Model) String() string { return m.cfg.String() }

// Format prints what String says, whatever the verb, so that no key is printed.
func (c Config) Format(f fmt.State, verb rune) {
	adapter.Print(f, verb, "anthropic.Config", c.String())
}

// Format prints what String says, whatever the verb.
func (m *Model) Format(f fmt.State, verb rune) { adapter.Print(f, verb, "anthropic.Model", m.String()) }

// New makes a Model. A mistake in the configuration panics: it is the program's, and no call would work.
func New(cfg Config) *Model {
	m, err := newModel(cfg)
	if err != nil {
		panic("llm/adapters/anthropic: New: " + err.Error())
	}
	return m
}

func newModel(cfg Config) (*Model, error) {
	adapter.FillIn(&cfg.Provider, extraName)
	adapter.FillIn(&cfg.BaseURL, defaultBaseURL)
	adapter.FillIn(&cfg.KeyHeader, defaultHeader)
	if cfg.MaxTokens == 0 {
		cfg.MaxTokens = DefaultMaxTokens
	}
	if cfg.MaxTokens < 0 {
		return nil, fmt.Errorf("MaxTokens is %d; use 0 for the default", cfg.MaxTokens)
	}
	account, err := adapter.NewAccount(adapter.Account{
		Provider: cfg.Provider, APIKey: cfg.APIKey, Key: cfg.Key, KeyHeader: cfg.KeyHeader, Header: cfg.Header,
	})
	if err != nil {
		return nil, err
	}
	account.HideIn(cfg.BaseURL)
	base, err := baseURL(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	return &Model{cfg: cfg, account: account, client: sdk.Client{Options: []option.RequestOption{
		option.WithBaseURL(base), option.WithHTTPClient(wire.Client(cfg.HTTPClient)),
		option.WithMaxRetries(0), option.WithoutOpenTelemetry(),
	}}}, nil
}

func baseURL(base string) (string, error) {
	u, err := adapter.ParseBase(base)
	if err != nil {
		return "", err
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/messages"), "/v1")
	return u.String(), adapter.NoQuery(u)
}

// Call makes one request. With req.Sink set the answer is streamed. The error is an *llm.Error.
func (m *Model) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return m.newCall(ctx, req).do()
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
	key, bad := m.account.KeyFor(r.Context())
	if bad != nil {
		return nil, m.account.Classified(r.Context(), bad)
	}
	m.account.Sign(r.Header, key)
	resp, err := next(r)
	if err == nil && resp.StatusCode >= 400 { // the SDK reads failures whole
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, wire.MaxBody), resp.Body}
	}
	return resp, err
}
