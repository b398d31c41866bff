package bedrock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	key := func(context.Context) (string, error) { return "", nil }
	for _, c := range []struct {
		name string
		cfg  bedrock.Config
		want string
	}{
		{"no region", bedrock.Config{}, "no Region is set"},
		{"a region that is none", bedrock.Config{Region: "US East"}, "is no name of a region"},
		{"two keys", bedrock.Config{Region: "r", APIKey: "k", Key: key}, "more than one of"},
		{"a key and credentials", bedrock.Config{Region: "r", APIKey: "k", Credentials: madeUp()}, "more than one of"},
		{"a key with a line break", bedrock.Config{Region: "r", APIKey: "k\n"}, "APIKey has blanks"},
		{"a header that is none", bedrock.Config{Region: "r", Header: http.Header{"a:b": {"c"}}}, "is no header name"},
		{"a header with a line break", bedrock.Config{Region: "r", Header: http.Header{"A": {"b\r\nc: d"}}}, "line break"},
		{"an address that is none", bedrock.Config{Region: "r", BaseURL: "http://h\x7f"}, "is no URL"},
		{"an address without scheme", bedrock.Config{Region: "r", BaseURL: "bedrock.example.com"}, "must begin with http"},
		{"an address with a password", bedrock.Config{Region: "r", BaseURL: "https://u:p@h"}, "a password"},
		{"an address with a query", bedrock.Config{Region: "r", BaseURL: "https://h/?key=abc"}, "has a query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, c.want) || !strings.HasPrefix(v, "llm/adapters/bedrock: New: ") {
					t.Errorf("panic %q, want %q in it", v, c.want)
				}
			}()
			bedrock.New(c.cfg)
			t.Error("New accepted it")
		})
	}
	if s := fmt.Sprint(bedrock.New(bedrock.Config{Region: "eu-west-1", Credentials: madeUp()})); s != "bedrock in eu-west-1" {
		t.Errorf("it calls itself %q", s)
	}
}

func TestRequestGoesWhereAndAsConfigured(t *testing.T) {
	// None of these may count: what is not in the Config is not there.
	for name, value := range map[string]string{
		"AWS_BEARER_TOKEN_BEDROCK": "from-the-environment", "AWS_ACCESS_KEY_ID": "AKIA", "AWS_REGION": "eu-west-3",
		"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "5",
	} {
		t.Setenv(name, value)
	}
	const arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.test.model-v1:0"
	for _, c := range []struct {
		name         string
		change       func(*bedrock.Config)
		path         string
		auth         string
		header, none map[string]string
	}{
		{"signed", func(*bedrock.Config) {}, "/model/test.model-v1%3A0/converse", "AWS4-HMAC-SHA256 Credential=" + madeUpID,
			map[string]string{"X-Amz-Security-Token": madeUpToken, "Content-Type": wiretest.JSON}, nil},
		{"nobody", func(c *bedrock.Config) { c.Credentials = nil }, "/model/test.model-v1%3A0/converse", "", nil,
			map[string]string{"X-Amz-Security-Token": ""}},
		{"nobody in the SDK's words", func(c *bedrock.Config) { c.Credentials = aws.AnonymousCredentials{} },
			"/model/test.model-v1%3A0/converse", "", nil, nil},
		{"a key", func(c *bedrock.Config) { c.Credentials, c.APIKey = nil, "bedrock-api-key-1" },
			"/model/test.model-v1%3A0/converse", "Bearer bedrock-api-key-1", nil, nil},
		{"a key function", func(c *bedrock.Config) {
			c.Credentials, c.Key = nil, func(context.Context) (string, error) { return "rotated", nil }
		}, "/model/test.model-v1%3A0/converse", "Bearer rotated", nil, nil},
		{"a header, signed", func(c *bedrock.Config) { c.Header = http.Header{"x-team": {"a"}} },
			"/model/test.model-v1%3A0/converse", "AWS4-HMAC-SHA256 Credential=" + madeUpID, map[string]string{"X-Team": "a"}, nil},
		{"a path", func(c *bedrock.Config) { c.BaseURL += "/gateway/" }, "/gateway/model/test.model-v1%3A0/converse", "AWS4-HMAC", nil, nil},
		{"an ARN", func(c *bedrock.Config) { c.Model = arn },
			"/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.test.model-v1%3A0/converse", "AWS4-HMAC", nil, nil},
	} {
		for how, req := range map[string]*llm.Request{"": wiretest.Ask("Hello?"), "-stream": wiretest.Streamed(&llm.Accumulator{})} {
			t.Run(c.name+how, func(t *testing.T) {
				var s wiretest.Recorder
				m := serve(t, s.Of(wiretest.Says(200, wiretest.JSON, hello)), c.change)
				if _, err := m.Call(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				r := s.Last()
				if r.URL.EscapedPath() != c.path+how || r.Method != http.MethodPost || r.ContentLength <= 0 {
					t.Errorf("%s %s of %d bytes, want POST %s", r.Method, r.URL.EscapedPath(), r.ContentLength, c.path+how)
				}
				auth := r.Header.Get("Authorization")
				if !strings.HasPrefix(auth, c.auth) || (auth == "") != (c.auth == "") {
					t.Errorf("it is authorized by %q, want %q", auth, c.auth)
				}
				if c.header["X-Team"] != "" && !strings.Contains(auth, "x-team") {
					t.Errorf("the header is not signed: %s", auth)
				}
				for _, want := range []map[string]string{c.header, c.none} {
					for name, value := range want {
						if got := r.Header.Get(name); got != value {
							t.Errorf("%s is %q, want %q", name, got, value)
						}
					}
				}
			})
		}
	}
}

func TestTheAddressIsTheRegions(t *testing.T) {
	host := ""
	m := bedrock.New(bedrock.Config{Region: "eu-central-1", Credentials: madeUp(), Model: "m", HTTPClient: &http.Client{
		Transport: wiretest.RoundTripper(func(r *http.Request) (*http.Response, error) {
			host = r.URL.Scheme + "://" + r.URL.Host
			return nil, errors.New("no network")
		}),
	}})
	if _, err := m.Call(t.Context(), wiretest.Ask("Hello?")); err == nil || host != "https://bedrock-runtime.eu-central-1.amazonaws.com" {
		t.Errorf("it went to %q, %v", host, err)
	}
}

// latecomer is a body whose reader, as net/http does, looks for the end of the request's body when the answer has begun.
type latecomer struct {
	io.Reader
	request io.ReadCloser
}

func (l latecomer) Read(p []byte) (int, error) {
	if n, err := io.Copy(io.Discard, l.request); n != 0 || err != nil {
		return 0, fmt.Errorf("the request's body gave %d bytes, %w", n, err)
	}
	return l.Reader.Read(p)
}

func (l latecomer) Close() error { return nil }

func TestAnAnswerMayComeBeforeTheRequestIsDone(t *testing.T) {
	m := bedrock.New(bedrock.Config{Region: "us-east-1", Model: "m", HTTPClient: &http.Client{
		Transport: wiretest.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if _, err := io.CopyN(io.Discard, r.Body, r.ContentLength); err != nil {
				return nil, err
			}
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{}, Body: latecomer{strings.NewReader(hello), r.Body}, Request: r,
			}, nil
		}),
	}})
	if resp, err := m.Call(t.Context(), wiretest.Ask("Hello?")); err != nil || resp.Text() != "Hello" {
		t.Errorf("%+v, %v", resp, err)
	}
	_, err := m.Client().InvokeModel(t.Context(), &bedrockruntime.InvokeModelInput{ModelId: aws.String("m"), Body: []byte("{}")})
	if err != nil {
		t.Errorf("the SDK's client: %v", err)
	}
}

func TestWithoutCredentialsTheCallEndsUnsent(t *testing.T) {
	vault := errors.New("the vault is sealed")
	for _, c := range []struct {
		name  string
		key   string
		creds aws.Credentials
		err   error
		class llm.Class
	}{
		{"an error", "", aws.Credentials{}, vault, llm.Auth},
		{"an error of a class", "", aws.Credentials{}, &llm.Error{Class: llm.Unavailable, Err: vault}, llm.Unavailable},
		{"nothing", "", aws.Credentials{}, nil, llm.Auth},
		{"a key that is none", "line\nbreak", aws.Credentials{}, nil, llm.Auth},
		{"a key's error", "k", aws.Credentials{}, vault, llm.Auth},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s wiretest.Recorder
			m := serve(t, s.Of(wiretest.Says(200, wiretest.JSON, hello)), func(cfg *bedrock.Config) {
				if c.key != "" {
					cfg.Credentials, cfg.Key = nil, func(context.Context) (string, error) { return c.key, c.err }
					return
				}
				cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return c.creds, c.err })
			})
			_, err := m.Call(t.Context(), wiretest.Ask("Hello?"))
			e := llm.AsError(err)
			if e.Class != c.class || e.Commit != llm.CommitNone || s.Calls() != 0 || c.err != nil && !errors.Is(err, vault) {
				t.Errorf("%v of class %v, commit %v after %d requests", err, e.Class, e.Commit, s.Calls())
			}
		})
	}
}

func TestCallIsOneRequestWhateverComes(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header []string
	}{
		{"500", 500, nil}, {"503", 503, nil}, {"429", 429, []string{"X-Amz-Retry-After", "0", "X-Amzn-Errortype", "ThrottlingException"}},
		{"408", 408, nil}, {"a skewed clock", 403, []string{"X-Amzn-Errortype", "RequestTimeTooSkewed", "Date", "Mon, 01 Jan 2001 00:00:00 GMT"}},
	} {
		for name, req := range map[string]*llm.Request{"whole": wiretest.Ask("Hello?"), "streamed": wiretest.Streamed(&llm.Accumulator{})} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				var s wiretest.Recorder
				m := serve(t, s.Of(wiretest.Says(c.status, wiretest.JSON, `{"message":"x"}`, c.header...)))
				if _, err := m.Call(t.Context(), req); err == nil || s.Calls() != 1 {
					t.Errorf("%d requests, %v", s.Calls(), err)
				}
				_, err := m.Client().Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("m")})
				if err == nil || s.Calls() != 2 {
					t.Errorf("%d requests of the SDK's client, %v", s.Calls(), err)
				}
			})
		}
	}
}

func TestClientIsTheSDKsOnTheSameTerms(t *testing.T) {
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "from-the-environment")
	var s wiretest.Recorder
	invoke := func(m *bedrock.Model) (*bedrockruntime.InvokeModelOutput, error) {
		return m.Client().InvokeModel(t.Context(), &bedrockruntime.InvokeModelInput{ModelId: aws.String("m"), Body: []byte("{}")})
	}
	m := serve(t, s.Of(wiretest.Says(200, wiretest.JSON, `{"n":7}`)), func(c *bedrock.Config) { c.Header = http.Header{"X-Team": {"a"}} })
	out, err := invoke(m)
	if err != nil || string(out.Body) != `{"n":7}` {
		t.Fatalf("%v, %v", out, err)
	}
	if h := s.Last().Header; !strings.HasPrefix(h.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+madeUpID) || h.Get("X-Team") != "a" {
		t.Errorf("the headers are %v", h)
	}
	m = serve(t, s.Of(wiretest.Says(429, wiretest.JSON, `{"message":"Too many requests by bedrock-api-key-1, please wait."}`,
		"X-Amzn-Requestid", "req-7", "X-Amz-Retry-After", "750", "X-Amzn-Errortype", "ThrottlingException:http://internal/")),
		func(c *bedrock.Config) { c.Credentials, c.APIKey = nil, "bedrock-api-key-1" })
	_, err = invoke(m)
	if auth := s.Last().Header.Get("Authorization"); s.Calls() != 1 || auth != "Bearer bedrock-api-key-1" {
		t.Errorf("%d requests by %q", s.Calls(), auth)
	}
	e := llm.AsError(m.AsError(t.Context(), err))
	if e.Class != llm.RateLimited || e.Evidence.Status != 429 || e.RequestID != "req-7" || e.RetryAfter.Milliseconds() != 750 ||
		e.Provider != "bedrock" || e.Evidence.Code != "ThrottlingException" {
		t.Errorf("%+v", e)
	}
	if strings.Contains(e.Error()+e.Evidence.Message, "bedrock-api-key-1") {
		t.Errorf("the key is in %v", e)
	}
	if m.AsError(t.Context(), nil) != nil {
		t.Error("nil became an error")
	}
	if own := m.AsError(t.Context(), e); llm.AsError(own) != e {
		t.Errorf("an error of the library's was changed: %v", own)
	}
	sealed := errors.New("the vault is sealed")
	m = serve(t, wiretest.Says(200, wiretest.JSON, "{}"), func(c *bedrock.Config) {
		c.Credentials, c.Key = nil, func(context.Context) (string, error) { return "", sealed }
	})
	if _, err := invoke(m); !errors.Is(m.AsError(t.Context(), err), llm.Auth) || !errors.Is(err, sealed) {
		t.Errorf("%v, want a failure of class Auth", err)
	}
}

func TestWhatTheSDKCannotSendIsInvalidAndUnsent(t *testing.T) {
	m := bedrock.New(bedrock.Config{Region: "-", Model: "m", HTTPClient: &http.Client{
		Transport: wiretest.RoundTripper(func(*http.Request) (*http.Response, error) {
			t.Error("it was sent")
			return nil, errors.New("no network")
		}),
	}})
	_, err := m.Call(t.Context(), wiretest.Ask("Hello?"))
	if e := llm.AsError(err); e.Class != llm.Invalid || e.Commit != llm.CommitNone || e.Evidence.Phase != llm.PhaseConnect {
		t.Errorf("%v of class %v, commit %v, phase %v", err, e.Class, e.Commit, e.Evidence.Phase)
	}
}
