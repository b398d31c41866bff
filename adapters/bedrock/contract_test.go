package bedrock_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
	"github.com/modelchain/llm/llmtest"
)

func TestCaller(t *testing.T) {
	llmtest.TestCaller(t, llmtest.Wire{
		New:   func(t *testing.T, url string) llm.Caller { return bedrock.New(at(t, url)) },
		Serve: serveAnswer,
		Event: frameType,
	})
}

// serveAnswer says a as Bedrock does.
func serveAnswer(w http.ResponseWriter, r *http.Request, a llmtest.Answer) {
	_, _ = io.Copy(io.Discard, r.Body)
	stop := "end_turn"
	if len(a.Calls) > 0 {
		stop = "tool_use"
	}
	usage := fmt.Sprintf(`{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d}`, a.Usage.Input, a.Usage.Output, a.Usage.Input+a.Usage.Output)
	if strings.HasSuffix(r.URL.Path, "/converse") {
		var blocks []string
		if len(a.Text) > 0 {
			blocks = append(blocks, `{"text":`+wiretest.Quote(strings.Join(a.Text, ""))+`}`)
		}
		for _, c := range a.Calls {
			blocks = append(blocks, fmt.Sprintf(`{"toolUse":{"toolUseId":%q,"name":%q,"input":%s}}`, c.ID, c.Name, c.Arguments))
		}
		w.Header().Set("Content-Type", wiretest.JSON)
		fmt.Fprintf(w, `{"output":{"message":{"role":"assistant","content":[%s]}},"stopReason":%q,"usage":%s,"metrics":{"latencyMs":5}}`,
			strings.Join(blocks, ","), stop, usage)
		return
	}
	w.Header().Set("Content-Type", frameType)
	send := func(frame string) {
		_, _ = io.WriteString(w, frame)
		_ = http.NewResponseController(w).Flush()
	}
	after := func(i int) {
		if a.After != nil {
			a.After(i)
		}
	}
	send(begun)
	after(-1)
	for i, text := range a.Text {
		if a.Garbage > 0 && i == a.Garbage {
			send(event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"te`))
		}
		send(piece(text))
		after(i)
	}
	if a.NoEnd {
		return
	}
	n := 0
	if len(a.Text) > 0 {
		send(closed)
		n = 1
	}
	for i, c := range a.Calls {
		i += n
		send(event("contentBlockStart", fmt.Sprintf(`{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":%q,"name":%q}}}`, i, c.ID, c.Name)))
		args := string(c.Arguments)
		for _, s := range []string{"", args[:len(args)/2], args[len(args)/2:]} {
			send(delta(i, `{"toolUse":{"input":`+wiretest.Quote(s)+`}}`))
		}
		send(event("contentBlockStop", fmt.Sprintf(`{"contentBlockIndex":%d}`, i)))
	}
	send(event("messageStop", fmt.Sprintf(`{"stopReason":%q}`, stop)))
	send(event("metadata", `{"usage":`+usage+`,"metrics":{"latencyMs":5}}`))
}
