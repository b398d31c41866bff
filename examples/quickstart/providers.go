package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
)

// startLimited is a provider whose rate limit is used up.
func startLimited() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After-Ms", "300")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}`)
	}))
}

const answer = "It stops calling what is down, so that it can recover."

// startHealthy is a provider that always answers, whole or streamed.
func startHealthy() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Stream bool }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		const usage = `{"prompt_tokens":25,"completion_tokens":12,"total_tokens":37}`
		if !body.Stream {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"c-1","object":"chat.completion","model":"gpt-4o-mini","choices":[{"index":0,"message":`+
				`{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":%s}`, answer, usage)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(delta, finish string) {
			fmt.Fprintf(w, `data: {"id":"c-2","object":"chat.completion.chunk","model":"gpt-4o-mini","choices":`+
				`[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
		}
		for word := range strings.SplitAfterSeq(answer, " ") {
			chunk(fmt.Sprintf(`{"content":%q}`, word), "null")
		}
		chunk("{}", `"stop"`)
		fmt.Fprintf(w, `data: {"id":"c-2","object":"chat.completion.chunk","model":"gpt-4o-mini","choices":[],"usage":%s}`+
			"\n\ndata: [DONE]\n\n", usage)
	}))
}
