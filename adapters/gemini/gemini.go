package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

const (
	nameGemini = "gemini"
	nameVertex = "vertex"
	// extraName is the key of Extra that is meant for this API, whatever the provider is called.
	extraName = nameGemini

	apiKeyHeader = "X-Goog-Api-Key"
)

// A Config says where a [Model] is and how to speak to it. The zero value is the Gemini Developer API without a key.
type Config struct {
	// Provider names whose API it is: "gemini", "vertex", or any name of your own together with BaseURL. It stands in errors,
	// selects the classifier's rows, and is a key of Request.Extra and Part.Extra beside "gemini". "": "vertex" where Project is
	// set, else "gemini".
	Provider string
	// BaseURL is the root of the API, what comes before /v1beta. "": https://generativelanguage.googleapis.com, or Vertex AI's
	// address for Location.
	BaseURL string
	// APIVersion is the version in the path. "": the one that BaseURL ends with, else "v1beta", and "v1beta1" for Vertex AI.
	APIVersion string
	// Project and Location select Vertex AI. Location is a region such as "europe-west4", "us", "eu" or "global". "": "global"
	// where Project is set. Vertex AI without Project is its express mode, which takes API keys.
	Project, Location string
	// APIKey is the key. Key is asked for it before each call instead, so that keys can rotate; its error ends the call. Set
	// one of them at most. Neither: no key is sent. With Project, the key is an OAuth access token of Google Cloud, and Key is
	// where a token source belongs, since tokens last an hour.
	APIKey string
	Key    func(context.Context) (string, error)
	// Model is sent for requests that name none: "gemini-2.5-flash", and on Vertex AI also "publishers/google/models/NAME",
	// "PUBLISHER/NAME", "endpoints/ID" or a whole "projects/…" path. "": they must.
	Model string

	// Header is sent with each request, over what the adapter sends itself: X-Goog-User-Project belongs here.
	Header http.Header
	// HTTPClient makes the requests; its Transport is wrapped and does the work. Its Timeout spans whole streams: rather leave
	// it 0 and let an attempt timeout guard the call. nil: a plain client.
	HTTPClient *http.Client
	// KeyHeader is the header that carries the key. "": "X-Goog-Api-Key", and "Authorization" with Project. "Authorization"
	// carries it with "Bearer " before it.
	KeyHeader string
}

// A Model is an [llm.Caller] for one API. It is immutable and safe for concurrent use.
type Model struct {
	cfg    Config // with the defaults filled in
	vertex bool
	base   address
	client *http.Client
	// account is who calls.
	account *adapter.Account
}

// String says where c leads, without keys.
func (c Config) String() string {
	return strings.TrimSpace(c.Provider + " " + c.Model)
}

// String says where m leads, without keys.
func (m *Model) String() string {
	return m.cfg.Provider + " at " + m.base.host
}

// Format prints what String says, whatever the verb, so that no key is printed.
func (c Config) Format(f fmt.State, verb rune) { adapter.Print(f, verb, "gemini.Config", c.String()) }

// Format prints what String says, whatever the verb.
func (m *Model) Format(f fmt.State, verb rune) { adapter.Print(f, verb, "gemini.Model", m.String()) }

// New makes a Model. A mistake in the configuration panics: it is the program's, and no call would work.
func New(cfg Config) *Model {
	m, err := newModel(cfg)
	if err != nil {
		panic("llm/adapters/gemini: New: " + err.Error())
	}
	return m
}

func newModel(cfg Config) (*Model, error) {
	vertex := cfg.Project != "" || isVertex(cfg.Provider)
	if vertex {
		adapter.FillIn(&cfg.Provider, nameVertex)
	} else {
		adapter.FillIn(&cfg.Provider, nameGemini)
	}
	if err := check(&cfg, vertex); err != nil {
		return nil, err
	}
	if cfg.Project != "" {
		adapter.FillIn(&cfg.Location, "global")
		adapter.FillIn(&cfg.KeyHeader, adapter.Bearer)
	}
	adapter.FillIn(&cfg.KeyHeader, apiKeyHeader)
	account, err := adapter.NewAccount(adapter.Account{
		Provider: cfg.Provider, APIKey: cfg.APIKey, Key: cfg.Key, KeyHeader: cfg.KeyHeader, Header: cfg.Header,
	})
	if err != nil {
		return nil, err
	}
	account.HideIn(cfg.BaseURL)
	base, err := addressOf(&cfg, vertex)
	if err != nil {
		return nil, err
	}
	return &Model{cfg: cfg, vertex: vertex, base: base, client: wire.Client(cfg.HTTPClient), account: account}, nil
}

func isVertex(provider string) bool {
	return provider == nameVertex || provider == "gcp.vertex_ai" || provider == "vertex_ai"
}

func isGemini(provider string) bool {
	return provider == nameGemini || provider == "gcp.gemini" || provider == "google"
}

func check(cfg *Config, vertex bool) error {
	switch {
	case cfg.Project != "" && isGemini(cfg.Provider):
		return fmt.Errorf("the provider %q has no projects; leave out Project, or set Provider to %q", cfg.Provider, nameVertex)
	case cfg.Location != "" && cfg.Project == "":
		return errors.New("the Location is set without Project; Vertex AI needs both")
	case !validPlace(cfg.Project):
		return fmt.Errorf("the Project %q is no project's id", cfg.Project)
	case !validPlace(cfg.Location):
		return fmt.Errorf("the Location %q is no region; use one such as \"europe-west4\" or \"global\"", cfg.Location)
	case !validPlace(cfg.APIVersion):
		return fmt.Errorf("the APIVersion %q is none; use one such as \"v1beta\"", cfg.APIVersion)
	case vertex && cfg.Project == "" && cfg.APIKey == "" && cfg.Key == nil && cfg.BaseURL == "":
		return errors.New("the Project is missing; Vertex AI needs it, or an API key for its express mode")
	case !vertex && !isGemini(cfg.Provider) && cfg.BaseURL == "":
		return fmt.Errorf("no address is known for Provider %q; set BaseURL, or use %q or %q", cfg.Provider, nameGemini, nameVertex)
	}
	return nil
}

// validPlace accepts what may stand in a host or a path. A project's id may have a domain before it.
func validPlace(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' && (c != '.' && c != ':' || i == 0) {
			return false
		}
	}
	return true
}

// Call makes one request. With req.Sink set the answer is streamed. The error is an *llm.Error.
func (m *Model) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return m.newCall(ctx, req).do()
}
