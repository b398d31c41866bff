package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
	"github.com/modelchain/llm/llmtest"
)

func TestContract(t *testing.T) {
	llmtest.TestCaller(t, llmtest.Wire{
		New: func(_ *testing.T, url string) llm.Caller {
			return openai.New(openai.Config{BaseURL: url, APIKey: "key-made-up"})
		},
		Serve: serveAnswer,
		Event: wiretest.SSE,
	})
}

// serveAnswer says a as OpenAI does.
func serveAnswer(w http.ResponseWriter, r *http.Request, a llmtest.Answer) {
	var req struct{ Stream bool }
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	finish := "stop"
	if len(a.Calls) > 0 {
		finish = "tool_calls"
	}
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, a.Usage.Input, a.Usage.Output)
	if !req.Stream {
		w.Header().Set("Content-Type", wiretest.JSON)
		var calls []string
		for _, c := range a.Calls {
			calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, c.ID, c.Name, wiretest.Quote(string(c.Arguments))))
		}
		_, _ = fmt.Fprintf(w, `{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s,"tool_calls":[%s]},"finish_reason":%q}],"usage":%s}`,
			wiretest.Quote(strings.Join(a.Text, "")), strings.Join(calls, ","), finish, usage)
		return
	}
	w.Header().Set("Content-Type", wiretest.SSE)
	delta := func(d string) {
		_, _ = fmt.Fprintf(w, "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{%s}}]}\n\n", d)
	}
	flush := func(i int) {
		w.(http.Flusher).Flush()
		if a.After != nil {
			a.After(i)
		}
	}
	delta(`"role":"assistant","content":""`)
	flush(-1)
	for i, text := range a.Text {
		if a.Garbage > 0 && a.Garbage == i {
			_, _ = io.WriteString(w, "data: {what is this}\n\n")
		}
		delta(`"content":` + wiretest.Quote(text))
		flush(i)
	}
	for i, c := range a.Calls {
		half := len(c.Arguments) / 2
		delta(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]`, i, c.ID, c.Name))
		for _, args := range []string{string(c.Arguments[:half]), string(c.Arguments[half:])} {
			delta(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, i, wiretest.Quote(args)))
		}
	}
	if a.NoEnd {
		return
	}
	_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: {\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", finish, usage)
}
