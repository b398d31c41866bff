package gemini_test

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/modelchain/llm/adapters/gemini"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestMain(m *testing.M) {
	// A library beneath the SDK starts one goroutine for the life of the process when it is loaded.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const (
	madeUp = "AIza" + "SyMadeUp0MadeUp1MadeUp2MadeUp3Made"
)

// serve starts a server and a Model that talks to it.
func serve(t testing.TB, h http.HandlerFunc, change ...func(*gemini.Config)) *gemini.Model {
	t.Helper()
	url, client := wiretest.Serve(t, h)
	cfg := gemini.Config{BaseURL: url, APIKey: madeUp, Model: "gemini-2.5-flash", HTTPClient: client}
	for _, f := range change {
		f(&cfg)
	}
	return gemini.New(cfg)
}

// events are the events of a stream, with the line ends that Google sends.
func events(datas ...string) string {
	var b strings.Builder
	for _, data := range datas {
		b.WriteString("data: " + data + "\r\n\r\n")
	}
	return b.String()
}

// chunk is a piece of an answer: its parts as JSON, and what else the candidate and the chunk have.
func chunk(parts, candidate, more string) string {
	return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"}` + candidate + `,"index":0}]` + more +
		`,"modelVersion":"gemini-2.5-flash-001","responseId":"resp-1"}`
}

func piece(text string) string { return chunk(`{"text":`+wiretest.Quote(text)+`}`, "", "") }

const (
	stop = `,"finishReason":"STOP"`
	used = `,"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":4,"totalTokenCount":14}`
)
