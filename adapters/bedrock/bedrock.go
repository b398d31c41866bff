package bedrock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
)

// extraName is the key of Extra that is meant for this API, whatever the provider is called.
const extraName = "bedrock"

// A Config says where a [Model] is and how to speak to it.
type Config struct {
	// Provider names whose API it is. It stands in errors, selects the classifier's rows, and is a key of Request.Extra and
	// Part.Extra beside "bedrock". "": "bedrock".
	Provider string
	// Region is the AWS region, such as "us-east-1". It is part of the address and of signatures. "" is a mistake.
	Region string
	// BaseURL replaces the region's own address, what comes before /model: a VPC endpoint or a gateway. "":
	// https://bedrock-runtime.REGION.amazonaws.com, and its like in other partitions.
	BaseURL string
	// Credentials sign the requests; aws.CredentialsProviderFunc makes a function one. They are asked for before each call, so
	// wrap those that are slow in aws.NewCredentialsCache, as config.LoadDefaultConfig does; their error ends the call. nil:
	// requests are not signed.
	Credentials aws.CredentialsProvider
	// APIKey is a Bedrock API key, which takes the place of Credentials. Key is asked for it before each call instead, so that
	// keys can rotate; its error ends the call. Set one of the three at most.
	APIKey string
	Key    func(context.Context) (string, error)
	// Model is the model or inference profile, by id or ARN, for requests that name none. "": they must.
	Model string

	// Header is sent with each request and signed with it.
	Header http.Header
	// HTTPClient makes the requests; its Transport is wrapped and does the work. Its Timeout spans whole streams: rather leave
	// it 0 and let an attempt timeout guard the call. nil: a plain client.
	HTTPClient *http.Client
}

// A Model is an [llm.Caller] for one API. It is immutable and safe for concurrent use.
type Model struct {
	cfg     Config // with the defaults filled in
	options bedrockruntime.Options
	client  *bedrockruntime.Client
	account *adapter.Account // who calls
	most    int              // bytes of an answer
}

// String says where m leads, without keys.
func (m *Model) String() string { return strings.TrimSpace(m.cfg.Provider + " in " + m.cfg.Region) }

// String says where c leads, without keys.
func (c Config) String() string { return strings.TrimSpace(c.Provider + " " + c.Model) }

// Format prints what String says, whatever the verb, so that no key is printed.
func (c Config) Format(f fmt.State, verb rune) { adapter.Print(f, verb, "bedrock.Config", c.String()) }

// Format prints what String says, whatever the verb.
func (m *Model) Format(f fmt.State, verb rune) { adapter.Print(f, verb, "bedrock.Model", m.String()) }

// New makes a Model. A mistake in the configuration panics: it is the program's, and no call would work.
func New(cfg Config) *Model {
	m, err := newModel(cfg)
	if err != nil {
		panic("llm/adapters/bedrock: New: " + err.Error())
	}
	return m
}

func newModel(cfg Config) (*Model, error) {
	adapter.FillIn(&cfg.Provider, extraName)
	if aws.IsCredentialsProvider(cfg.Credentials, (*aws.AnonymousCredentials)(nil)) {
		cfg.Credentials = nil
	}
	if err := check(&cfg); err != nil {
		return nil, err
	}
	account, err := adapter.NewAccount(adapter.Account{
		Provider: cfg.Provider, APIKey: cfg.APIKey, Key: cfg.Key, KeyHeader: adapter.Bearer, Header: cfg.Header,
	})
	if err != nil {
		return nil, err
	}
	if cfg.BaseURL, err = baseURL(cfg.BaseURL); err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, options: options(&cfg), account: account, most: maxAnswer}
	m.client = newClient(m.options)
	return m, nil
}

func check(cfg *Config) error {
	ways := 0
	for _, set := range [...]bool{cfg.Credentials != nil, cfg.APIKey != "", cfg.Key != nil} {
		if set {
			ways++
		}
	}
	switch {
	case cfg.Region == "":
		return errors.New("no Region is set; set one, such as us-east-1")
	case !validRegion(cfg.Region):
		return fmt.Errorf("%q in Region is no name of a region, such as us-east-1", cfg.Region)
	case ways > 1:
		return errors.New("more than one of Credentials, APIKey and Key is set; set one")
	}
	return nil
}

func validRegion(region string) bool {
	for i := range len(region) {
		if c := region[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func baseURL(base string) (string, error) {
	if base == "" {
		return "", nil
	}
	u, err := adapter.ParseBase(base)
	switch {
	case err != nil:
		return "", err
	case u.User != nil:
		return "", errors.New("BaseURL has a user or a password in it; put keys into APIKey or Header")
	}
	u.Path = strings.TrimSuffix(u.Path, "/model")
	return u.String(), adapter.NoQuery(u)
}

// Call makes one request. With req.Sink set the answer is streamed. The error is an *llm.Error.
func (m *Model) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return m.newCall(ctx, req).do()
}
