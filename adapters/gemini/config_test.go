package gemini_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	key := func(context.Context) (string, error) { return "", nil }
	for _, c := range []struct {
		name string
		cfg  gemini.Config
		want string
	}{
		{"two keys", gemini.Config{APIKey: "k", Key: key}, "both APIKey and Key"},
		{"a key with a line break", gemini.Config{APIKey: "k\n"}, "APIKey has blanks"},
		{"a key header that is none", gemini.Config{KeyHeader: "a b"}, "is no header name"},
		{"a header that is none", gemini.Config{Header: http.Header{"a:b": {"c"}}}, "is no header name"},
		{"a header with a line break", gemini.Config{Header: http.Header{"A": {"b\r\nc: d"}}}, "line break"},
		{"a project at the Developer API", gemini.Config{Provider: "gemini", Project: "p"}, "has no projects"},
		{"a location without a project", gemini.Config{Location: "us-central1"}, "without Project"},
		{"a project that leads elsewhere", gemini.Config{Project: "../p"}, "is no project's id"},
		{"a location that leads elsewhere", gemini.Config{Project: "p", Location: "evil.example.com/"}, "is no region"},
		{"a version that leads elsewhere", gemini.Config{APIVersion: "v1/../v2"}, "APIVersion"},
		{"Vertex AI without project and key", gemini.Config{Provider: "vertex"}, "Project is missing"},
		{"an unknown provider without an address", gemini.Config{Provider: "ours"}, "set BaseURL"},
		{"an address that is none", gemini.Config{BaseURL: "http://[::1"}, "is no URL"},
		{"an address without scheme", gemini.Config{BaseURL: "api.example.com"}, "must begin with http"},
		{"an address with a query", gemini.Config{BaseURL: "https://h/?key=abc"}, "has a query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if v, _ := recover().(string); !strings.Contains(v, c.want) || !strings.HasPrefix(v, "llm/adapters/gemini: New: ") {
					t.Errorf("panic %q, want %q in it", v, c.want)
				}
			}()
			gemini.New(c.cfg)
			t.Error("New accepted it")
		})
	}
	gemini.New(gemini.Config{}) // the zero value works
}

// sentTo is where a Model of cfg sends a call, by its http.Client.
func sentTo(t *testing.T, cfg gemini.Config, req *llm.Request) (to string, header http.Header) {
	t.Helper()
	cfg.HTTPClient = &http.Client{Transport: wiretest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		to, header = r.URL.String(), r.Header.Clone()
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {wiretest.JSON}}, Body: http.NoBody}, nil
	})}
	_, _ = gemini.New(cfg).Call(t.Context(), req) // only the request counts
	return to, header
}

func TestAddresses(t *testing.T) {
	const g, v = "https://generativelanguage.googleapis.com/", "https://aiplatform.googleapis.com/"
	for _, c := range []struct {
		name string
		cfg  gemini.Config
		want string
	}{
		{"the Developer API", gemini.Config{Model: "gemini-x"}, g + "v1beta/models/gemini-x"},
		{"a whole name", gemini.Config{Model: "models/gemini-x"}, g + "v1beta/models/gemini-x"},
		{"a tuned model", gemini.Config{Model: "tunedModels/mine"}, g + "v1beta/tunedModels/mine"},
		{"an odd name", gemini.Config{Model: "a?b#c d%2f"}, g + "v1beta/models/a%3Fb%23c%20d%252f"},
		{"a version", gemini.Config{Model: "m", APIVersion: "v1"}, g + "v1/models/m"},
		{"an address with a path", gemini.Config{Model: "m", BaseURL: "http://h:1/gate/"}, "http://h:1/gate/v1beta/models/m"},
		{"an address with a version", gemini.Config{Model: "m", BaseURL: "http://h/gate/v1alpha"}, "http://h/gate/v1alpha/models/m"},
		{"an address and a version", gemini.Config{Model: "m", BaseURL: "http://h/v1beta/", APIVersion: "v9"}, "http://h/v9/models/m"},
		{"an address that ends like a version", gemini.Config{Model: "m", BaseURL: "http://h/vertex"}, "http://h/vertex/v1beta/models/m"},
		{"a provider of one's own", gemini.Config{Provider: "ours", Model: "m", BaseURL: "http://h"}, "http://h/v1beta/models/m"},
		{"Vertex AI", gemini.Config{Project: "p", Model: "gemini-x"}, v + "v1beta1/projects/p/locations/global/publishers/google/models/gemini-x"},
		{"a region", gemini.Config{Project: "example.com:p", Location: "europe-west4", Model: "m"},
			"https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/example.com:p/locations/europe-west4/publishers/google/models/m"},
		{"several regions", gemini.Config{Project: "p", Location: "eu", Model: "m"},
			"https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p/locations/eu/publishers/google/models/m"},
		{"a publisher", gemini.Config{Project: "p", Model: "acme/m@1"}, v + "v1beta1/projects/p/locations/global/publishers/acme/models/m@1"},
		{"a publisher's path", gemini.Config{Project: "p", Model: "publishers/acme/models/m"}, v + "v1beta1/projects/p/locations/global/publishers/acme/models/m"},
		{"an endpoint", gemini.Config{Project: "p", Model: "endpoints/12"}, v + "v1beta1/projects/p/locations/global/endpoints/12"},
		{"a whole path", gemini.Config{Project: "p", Model: "projects/q/locations/us/endpoints/1"}, v + "v1beta1/projects/q/locations/us/endpoints/1"},
		{"the express mode", gemini.Config{Provider: "vertex", APIKey: "k", Model: "m"}, v + "v1beta1/publishers/google/models/m"},
		{"Vertex AI behind a gateway", gemini.Config{Project: "p", BaseURL: "http://h/v1", Model: "m"},
			"http://h/v1/projects/p/locations/global/publishers/google/models/m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if to, _ := sentTo(t, c.cfg, wiretest.Ask("hi")); to != c.want+":generateContent" {
				t.Errorf("sent to %s, want %s", to, c.want)
			}
			if to, _ := sentTo(t, c.cfg, wiretest.Streamed(&llm.Accumulator{})); to != c.want+":streamGenerateContent?alt=sse" {
				t.Errorf("streamed from %s, want %s", to, c.want)
			}
		})
	}
}

func TestTheModelOfTheRequestGoesBeforeTheAdapters(t *testing.T) {
	req := wiretest.Ask("hi")
	req.Model = "gemini-y"
	if to, _ := sentTo(t, gemini.Config{Model: "gemini-x"}, req); !strings.Contains(to, "models/gemini-y:") {
		t.Errorf("sent to %s", to)
	}
}

func TestNamesThatLeadElsewhereAreNotSent(t *testing.T) {
	for _, model := range []string{"../files", "models/../../files", "a//b", "a/", "/a", ".", "models/.."} {
		if to, _ := sentTo(t, gemini.Config{Model: model}, wiretest.Ask("hi")); to != "" {
			t.Errorf("%q was sent to %s", model, to)
		}
	}
}

func TestHeadersOfARequest(t *testing.T) {
	const key = "X-Goog-Api-Key"
	for _, c := range []struct {
		name string
		cfg  gemini.Config
		want map[string]string
	}{
		{"a key", gemini.Config{APIKey: madeUp}, map[string]string{key: madeUp, "Authorization": "", "Content-Type": wiretest.JSON, "Accept": wiretest.JSON}},
		{"no key", gemini.Config{}, map[string]string{key: "", "Authorization": ""}},
		{"a token for Vertex AI", gemini.Config{Project: "p", APIKey: "ya29.made-up"}, map[string]string{"Authorization": "Bearer ya29.made-up", key: ""}},
		{"a key for the express mode", gemini.Config{Provider: "vertex", APIKey: madeUp}, map[string]string{key: madeUp, "Authorization": ""}},
		{"a header of one's own", gemini.Config{APIKey: "k", KeyHeader: "X-Gate"}, map[string]string{"X-Gate": "k", key: ""}},
		{"a token for a gateway", gemini.Config{APIKey: "k", KeyHeader: "authorization"}, map[string]string{"Authorization": "Bearer k", key: ""}},
		{"headers over the adapter's own", gemini.Config{Header: http.Header{"x-goog-user-project": {"billed"}, "Accept": {"x/y"}}},
			map[string]string{"X-Goog-User-Project": "billed", "Accept": "x/y"}},
	} {
		c.cfg.Model = "m"
		_, header := sentTo(t, c.cfg, wiretest.Ask("hi"))
		for name, value := range c.want {
			if got := header.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got, value)
			}
		}
	}
}

func TestNothingOfTheEnvironmentCounts(t *testing.T) {
	for name, value := range map[string]string{
		"GOOGLE_API_KEY": "from-the-environment", "GEMINI_API_KEY": "from-the-environment", "GOOGLE_GENAI_USE_VERTEXAI": "true",
		"GOOGLE_CLOUD_PROJECT": "environment", "GOOGLE_CLOUD_LOCATION": "environment", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
	to, header := sentTo(t, gemini.Config{Model: "m"}, wiretest.Ask("hi"))
	if to != "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent" || header.Get("X-Goog-Api-Key") != "" {
		t.Errorf("sent to %s with %v", to, header)
	}
}

func TestCapabilitiesGoByTheGeneration(t *testing.T) {
	for model, reasons := range map[string]bool{
		"gemini-1.5-pro": false, "gemini-2.0-flash-001": false, "gemini-2.5-pro": true, "publishers/google/models/gemini-2.5-flash": true,
		"gemini-3-pro-preview": true, "gemini-3.1-flash": true, "gemini-flash-latest": true, "endpoints/12": true,
	} {
		has := gemini.Capabilities(model)
		if (has&llm.CanReasoning != 0) != reasons {
			t.Errorf("%s: %v", model, has)
		}
		if want := llm.CanStream | llm.CanTools | llm.CanImages | llm.CanFiles | llm.CanAudio | llm.CanJSON | llm.CanSchema; has&want != want || has&llm.CanPrefill != 0 {
			t.Errorf("%s: %v", model, has)
		}
	}
}

func TestNothingPrintsAKey(t *testing.T) {
	cfg := gemini.Config{Provider: "gemini", APIKey: madeUp, Model: "m"}
	for _, s := range []string{cfg.String(), gemini.New(cfg).String()} {
		if strings.Contains(s, madeUp) || !strings.Contains(s, "gemini") {
			t.Errorf("got %q", s)
		}
	}
}
