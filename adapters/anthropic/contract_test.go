package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/anthropic"
	"github.com/modelchain/llm/internal/wiretest"
	"github.com/modelchain/llm/llmtest"
)

func TestCaller(t *testing.T) {
	llmtest.TestCaller(t, llmtest.Wire{
		New: func(t *testing.T, url string) llm.Caller {
			return anthropic.New(anthropic.Config{BaseURL: url, APIKey: madeUp, HTTPClient: wiretest.Client(t)})
		},
		Serve: serveAnswer,
		Event: wiretest.SSE,
	})
}

// serveAnswer says a as Anthropic does.
func serveAnswer(w http.ResponseWriter, r *http.Request, a llmtest.Answer) {
	var req struct{ Stream bool }
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	stop := "end_turn"
	if len(a.Calls) > 0 {
		stop = "tool_use"
	}
	if !req.Stream {
		var blocks []string
		if len(a.Text) > 0 {
			blocks = append(blocks, `{"type":"text","text":`+wiretest.Quote(strings.Join(a.Text, ""))+`}`)
		}
		for _, c := range a.Calls {
			blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.ID, c.Name, c.Arguments))
		}
		w.Header().Set("Content-Type", wiretest.JSON)
		fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[%s],"stop_reason":%q,`+
			`"stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`,
			strings.Join(blocks, ","), stop, a.Usage.Input, a.Usage.Output)
		return
	}
	w.Header().Set("Content-Type", wiretest.SSE)
	send := func(data string) {
		_, _ = io.WriteString(w, events(data))
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	after := func(i int) {
		if a.After != nil {
			a.After(i)
		}
	}
	send(fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],`+
		`"model":"claude-test","stop_reason":null,"usage":{"input_tokens":%d,"output_tokens":1}}}`, a.Usage.Input))
	send(`{"type":"ping"}`)
	if len(a.Text) > 0 {
		send(opened)
	}
	after(-1)
	for i, text := range a.Text {
		if a.Garbage > 0 && i == a.Garbage {
			send(`{"type":"content_block_delta","index":0,"delta":{"type":"text_de`)
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
		send(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`,
			i, c.ID, c.Name))
		args := string(c.Arguments)
		for _, s := range []string{"", args[:len(args)/2], args[len(args)/2:]} {
			send(fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, wiretest.Quote(s)))
		}
		send(fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	send(fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}}`,
		stop, a.Usage.Output))
	send(over)
}
