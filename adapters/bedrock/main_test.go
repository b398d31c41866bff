package bedrock_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"go.uber.org/goleak"

	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	frameType = "application/vnd.amazon.eventstream"

	madeUpID     = "AKIA" + "MADEUP0MADEUP1AA"
	madeUpSecret = "madeup0madeup1madeup2/madeup3+madeup4madeu"
	madeUpToken  = "IQoJb3JpZ2luX2Vj" + "madeup0madeup1madeup2madeup3madeup4/madeup5=="
)

func madeUp() aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: madeUpID, SecretAccessKey: madeUpSecret, SessionToken: madeUpToken}, nil
	})
}

// serve starts a server and a Model that talks to it.
func serve(t testing.TB, h http.HandlerFunc, change ...func(*bedrock.Config)) *bedrock.Model {
	t.Helper()
	url, _ := wiretest.Serve(t, h)
	return bedrock.New(at(t, url, change...))
}

func at(t testing.TB, url string, change ...func(*bedrock.Config)) bedrock.Config {
	cfg := bedrock.Config{
		BaseURL: url, Region: "us-east-1", Credentials: madeUp(), Model: "test.model-v1:0", HTTPClient: wiretest.Client(t),
	}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// frame is one frame of an event stream; headers alternate between name and value.
func frame(payload string, headers ...string) string {
	m := eventstream.Message{Payload: []byte(payload)}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Headers.Set(headers[i], eventstream.StringValue(headers[i+1]))
	}
	var buf bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&buf, m); err != nil {
		panic(err)
	}
	return buf.String()
}

func event(name, payload string) string {
	return frame(payload, ":message-type", "event", ":event-type", name, ":content-type", wiretest.JSON)
}

func exception(name, payload string) string {
	return frame(payload, ":message-type", "exception", ":exception-type", name, ":content-type", wiretest.JSON)
}

// delta is an event that continues block i.
func delta(i int, what string) string {
	return event("contentBlockDelta", `{"contentBlockIndex":`+string(rune('0'+i))+`,"delta":`+what+`,"p":"abcdefgh"}`)
}

func piece(text string) string { return delta(0, `{"text":`+wiretest.Quote(text)+`}`) }

var (
	begun  = event("messageStart", `{"role":"assistant","p":"abcd"}`)
	closed = event("contentBlockStop", `{"contentBlockIndex":0,"p":"abc"}`)
	ended  = event("messageStop", `{"stopReason":"end_turn","p":"ab"}`)
	told   = event("metadata", `{"usage":{"inputTokens":10,"outputTokens":4,"totalTokens":14},"metrics":{"latencyMs":321},"p":"a"}`)
)

const hello = `{"output":{"message":{"role":"assistant","content":[{"text":"Hello"}]}},"stopReason":"end_turn",` +
	`"usage":{"inputTokens":10,"outputTokens":4,"totalTokens":14},"metrics":{"latencyMs":321}}`
