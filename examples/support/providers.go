package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
)

// local is a primary that is overloaded and a fallback that answers, both on loopback.
func local() (deployments []*llm.Deployment, stop func()) {
	overloaded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Should-Retry", "false")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":{"message":"The engine is currently overloaded","type":"server_error"}}`)
	}))
	healthy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","model":"backup","choices":[{"index":0,"finish_reason":"stop","message":`+
			`{"role":"assistant","content":"Open Settings, then Security, then choose Reset password."}}]}`)
	}))
	deployment := func(name, url string) *llm.Deployment {
		return &llm.Deployment{
			Name: name, Provider: "openai", Model: name,
			Caller: openai.New(openai.Config{BaseURL: url + "/v1", Model: name}),
		}
	}
	stop = func() {
		overloaded.Close()
		healthy.Close()
	}
	return []*llm.Deployment{deployment("primary", overloaded.URL), deployment("backup", healthy.URL)}, stop
}
