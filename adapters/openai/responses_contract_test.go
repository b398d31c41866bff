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

func TestResponsesContract(t *testing.T) {
	llmtest.TestCaller(t, llmtest.Wire{
		New: func(_ *testing.T, url string) llm.Caller {
			return openai.NewResponses(openai.Config{BaseURL: url, APIKey: "key-made-up"})
		},
		Serve: serveResponse,
		Event: wiretest.SSE,
	})
}

// event is one event of a stream, under the name that OpenAI gives it beside its type.
func event(kind, fields string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":7,%s}\n\n", kind, kind, fields)
}

func messageItem(text string) string {
	return `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":` +
		wiretest.Quote(text) + `}]}`
}

func callItem(c *llm.ToolCall) string {
	return fmt.Sprintf(`{"id":"fc_%s","type":"function_call","status":"completed","call_id":%q,"name":%q,"arguments":%s}`, c.ID, c.ID, c.Name,
		wiretest.Quote(string(c.Arguments)))
}

func wholeResponse(status string, u llm.Usage, items ...string) string {
	return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1764460800,"status":%q,"error":null,"incomplete_details":null,`+
		`"instructions":"Be brief.","model":"m-1","output":[%s],"store":false,"tools":[],`+
		`"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":9}}`,
		status, strings.Join(items, ","), u.Input, u.Output)
}

// serveResponse says a as OpenAI does.
func serveResponse(w http.ResponseWriter, r *http.Request, a llmtest.Answer) {
	var req struct{ Stream bool }
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var items []string
	if len(a.Text) > 0 {
		items = append(items, messageItem(strings.Join(a.Text, "")))
	}
	for i := range a.Calls {
		items = append(items, callItem(&a.Calls[i]))
	}
	if !req.Stream {
		w.Header().Set("Content-Type", wiretest.JSON)
		_, _ = io.WriteString(w, wholeResponse("completed", a.Usage, items...))
		return
	}
	w.Header().Set("Content-Type", wiretest.SSE)
	say := func(kind, format string, args ...any) {
		_, _ = io.WriteString(w, event(kind, fmt.Sprintf(format, args...)))
	}
	flush := func(i int) {
		w.(http.Flusher).Flush()
		if a.After != nil {
			a.After(i)
		}
	}
	say("response.created", `"response":%s`, wholeResponse("in_progress", llm.Usage{}))
	say("response.in_progress", `"response":%s`, wholeResponse("in_progress", llm.Usage{}))
	if len(a.Text) > 0 {
		say("response.output_item.added", `"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}`)
		say("response.content_part.added",
			`"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`)
		say("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"","logprobs":[]`)
	}
	flush(-1)
	for i, text := range a.Text {
		if a.Garbage > 0 && a.Garbage == i {
			_, _ = io.WriteString(w, "data: {what is this}\n\n")
		}
		say("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":%s,"logprobs":[],"obfuscation":"x"`, wiretest.Quote(text))
		flush(i)
	}
	if a.NoEnd {
		return
	}
	n := 0
	if len(a.Text) > 0 {
		say("response.output_text.done", `"item_id":"msg_1","output_index":0,"content_index":0,"text":%s,"logprobs":[]`, wiretest.Quote(strings.Join(a.Text, "")))
		say("response.output_item.done", `"output_index":0,"item":%s`, items[0])
		n = 1
	}
	for i := range a.Calls {
		c, half := &a.Calls[i], len(a.Calls[i].Arguments)/2
		say("response.output_item.added", `"output_index":%d,"item":{"id":"fc_%s","type":"function_call","status":"in_progress","arguments":"","call_id":%q,"name":%q}`,
			n+i, c.ID, c.ID, c.Name)
		for _, args := range []string{string(c.Arguments[:half]), string(c.Arguments[half:])} {
			say("response.function_call_arguments.delta", `"item_id":"fc_%s","output_index":%d,"delta":%s`, c.ID, n+i, wiretest.Quote(args))
		}
		say("response.function_call_arguments.done", `"item_id":"fc_%s","output_index":%d,"arguments":%s`, c.ID, n+i, wiretest.Quote(string(c.Arguments)))
		say("response.output_item.done", `"output_index":%d,"item":%s`, n+i, callItem(c))
	}
	say("response.completed", `"response":%s`, wholeResponse("completed", a.Usage, items...))
}
