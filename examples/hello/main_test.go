package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
)

// with runs the program with these settings.
func with(key, url string) {
	for name, value := range map[string]string{"OPENAI_API_KEY": key, "OPENAI_BASE_URL": url} {
		old, set := os.LookupEnv(name)
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
		defer func() {
			err := os.Unsetenv(name)
			if set {
				err = os.Setenv(name, old)
			}
			if err != nil {
				panic(err)
			}
		}()
	}
	main()
}

// A server on loopback stands in for OpenAI; it does not know gpt-4o.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case err != nil || r.Header.Get("Authorization") != "Bearer made-up":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(string(body), `"gpt-4o"`):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`)
		default:
			fmt.Fprint(w, `{"model":"gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"It trips."},`+
				`"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":3}}`)
		}
	}))
	defer server.Close()
	with("made-up", server.URL)
	// Output:
	// It trips.
	// (gpt-4o-mini answered, after 2 calls)
}

func Example_withoutAKey() {
	with("", "")
	// Output: Set OPENAI_API_KEY to a key of OpenAI's and run this again.
}
