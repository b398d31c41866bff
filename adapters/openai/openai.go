package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// A Config says where a [Model] is and how to speak to it. The zero value is OpenAI without a key.
type Config struct {
	// Provider names whose API it is: "openai", "azure", "groq", and the others that [Providers] lists, or any name of your
	// own together with BaseURL. It fills in the provider's address and habits, stands in errors, selects the classifier's
	// rows, and is a key of Request.Extra beside "openai". "": "openai".
	Provider string
	// BaseURL is the root of the API, what comes before /chat/completions or /responses: "http://localhost:8000/v1". "": the
	// provider's own; Azure has none.
	BaseURL string
	// APIKey is the key. Key is asked for it before each call instead, so that keys can rotate; its error ends the call. Set
	// one of them at most. Neither: no key is sent, as local servers want it.
	APIKey string
	Key    func(context.Context) (string, error)
	// Model is sent for requests that name none. "": they must.
	Model string

	// Organization and Project are sent as OpenAI's headers of these names. "": not sent.
	Organization, Project string
	// Header is sent with each request, over what the adapter sends itself.
	Header http.Header
	// HTTPClient makes the requests; its Transport is wrapped and does the work. Its Timeout spans whole streams: rather leave
	// it 0 and let an attempt timeout guard the call. nil: a plain client.
	HTTPClient *http.Client

	// APIVersion selects Azure's dated API, such as "2024-10-21", where the deployment is part of the path and Model is its
	// name. "": the v1 API.
	APIVersion string
	// KeyHeader is the header that carries the key. "": the provider's own, which is "Authorization" with "Bearer " before
	// the key, and "api-key" for Azure. An Entra token for Azure goes into "Authorization".
	KeyHeader string
	// MaxTokensField is the body's field for Request.MaxTokens. "": the provider's own; at OpenAI and Azure
	// "max_completion_tokens" for models that reason, by their names, else "max_tokens".
	MaxTokensField string
	// ReasoningField is the field in which an assistant's reasoning is sent back with its tool calls. "": the provider's own,
	// which most do not have.
	ReasoningField string
	// NoStreamUsage keeps stream_options, which asks for the usage of a stream, from servers that refuse it.
	NoStreamUsage bool
}

// A Model is an [llm.Caller] for one API. It is immutable and safe for concurrent use.
type Model struct {
	api    api
	cfg    Config // with the provider's own filled in
	dash   dialect
	base   *url.URL
	client *http.Client
	// account is who calls, with Organization and Project among its headers.
	account *adapter.Account
}

// String says where c leads, without keys.
func (c Config) String() string {
	return strings.TrimSpace(c.Provider + " " + c.Model)
}

// String says where m leads, without keys.
func (m *Model) String() string {
	return m.cfg.Provider + " at " + m.base.Host
}

// Format prints what String says, whatever the verb, so that no key is printed.
func (c Config) Format(f fmt.State, verb rune) { adapter.Print(f, verb, "openai.Config", c.String()) }

// Format prints what String says, whatever the verb.
func (m *Model) Format(f fmt.State, verb rune) { adapter.Print(f, verb, "openai.Model", m.String()) }

// New makes a Model. A mistake in the configuration panics: it is the program's, and no call would work.
func New(cfg Config) *Model {
	m, err := newModel(cfg, chat{})
	if err != nil {
		panic("llm/adapters/openai: New: " + err.Error())
	}
	return m
}

func newModel(cfg Config, how api) (*Model, error) {
	d, known := dialectOf(cfg.Provider)
	if cfg.Provider == "" {
		cfg.Provider = d.name
	}
	if cfg.BaseURL == "" {
		if !known {
			return nil, fmt.Errorf("no address is known for Provider %q; set BaseURL, or use one of %s",
				cfg.Provider, strings.Join(Providers(), ", "))
		}
		if d.base == "" {
			return nil, fmt.Errorf("the provider %q needs BaseURL, such as https://NAME.openai.azure.com", cfg.Provider)
		}
		cfg.BaseURL = d.base
	}
	adapter.FillIn(&cfg.KeyHeader, d.keyHeader)
	adapter.FillIn(&cfg.ReasoningField, d.reasoningField)
	cfg.NoStreamUsage = cfg.NoStreamUsage || d.noStreamUsage
	if cfg.APIVersion != "" && !d.azure {
		return nil, fmt.Errorf("APIVersion is for the provider %q, not for %q", "azure", cfg.Provider)
	}
	account, err := accountOf(&cfg)
	if err != nil {
		return nil, err
	}
	account.HideIn(cfg.BaseURL)
	base, err := baseURL(&cfg, &d)
	if err != nil {
		return nil, err
	}
	return &Model{api: how, cfg: cfg, dash: d, base: base, client: wire.Client(cfg.HTTPClient), account: account}, nil
}

func accountOf(cfg *Config) (*adapter.Account, error) {
	if cfg.APIVersion != "" && cfg.Model == "" {
		return nil, errors.New("APIVersion needs Model, the name of the Azure deployment")
	}
	header := http.Header{}
	for name, value := range map[string]string{"Openai-Organization": cfg.Organization, "Openai-Project": cfg.Project} {
		if value != "" {
			header.Set(name, value)
		}
	}
	for name, values := range cfg.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	return adapter.NewAccount(adapter.Account{
		Provider: cfg.Provider, APIKey: cfg.APIKey, Key: cfg.Key, KeyHeader: cfg.KeyHeader, Header: header,
	})
}

const (
	chatPath      = "/chat/completions"
	responsesPath = "/responses"
)

func baseURL(cfg *Config, d *dialect) (*url.URL, error) {
	u, err := adapter.ParseBase(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, chatPath), responsesPath)
	if !d.azure {
		return u, nil
	}
	u.Path = strings.TrimSuffix(u.Path, "/openai")
	switch {
	case cfg.APIVersion == "" && u.Path == "":
		u.Path = "/openai/v1"
	case cfg.APIVersion != "" && !strings.Contains(u.Path, "/deployments/"):
		u.Path += "/openai"
	}
	if cfg.APIVersion != "" {
		q := u.Query()
		q.Set("api-version", cfg.APIVersion)
		u.RawQuery = q.Encode()
	}
	return u, nil
}

// url is where calls to a model go.
func (m *Model) url(model string) string {
	u := *m.base
	path := m.api.path()
	if path == chatPath && m.cfg.APIVersion != "" && m.dash.azure && !strings.Contains(u.Path, "/deployments/") {
		u.Path += "/deployments/" + model
		u.RawPath = m.base.EscapedPath() + "/deployments/" + url.PathEscape(model)
	}
	if u.RawPath != "" {
		u.RawPath += path
	}
	u.Path += path
	return u.String()
}

// Call makes one request. With req.Sink set the answer is streamed. The error is an *llm.Error.
func (m *Model) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return m.newCall(ctx, req).do()
}
