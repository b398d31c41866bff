// Package wire writes what model providers send: answers whole and in events, failures with their bodies and headers, and what
// comes out when they break. It knows five APIs and tells by a request which one it is for.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// An API is a provider's protocol.
type API string

// The APIs.
const (
	Chat      API = "chat"      // OpenAI Chat Completions
	Responses API = "responses" // OpenAI Responses
	Anthropic API = "anthropic" // Anthropic Messages
	Gemini    API = "gemini"    // generateContent of the Developer API and of Vertex AI
	Bedrock   API = "bedrock"   // Bedrock Converse
)

// APIs are all of them.
func APIs() []API { return []API{Chat, Responses, Anthropic, Gemini, Bedrock} }

// Media types.
const (
	JSON  = "application/json"
	SSE   = "text/event-stream"
	AWS   = "application/vnd.amazon.eventstream"
	HTML  = "text/html"
	plain = "text/plain; charset=utf-8"
)

// A Request is what a request says about the form of its answer.
type Request struct {
	API    API
	Model  string
	Stream bool
	// Vertex: Gemini's API at Vertex AI. List: its stream is one JSON array, since nobody asked for events.
	Vertex, List bool
	// Usage: a streamed chat is to end with its usage.
	Usage bool
	// Input is the number of tokens that the body has, about.
	Input int
}

// Read tells what a request wants. The error says what is wrong with it.
func Read(r *http.Request, body []byte) (Request, error) {
	q := Request{Input: about(len(body))}
	path := r.URL.EscapedPath()
	last := path[strings.LastIndexByte(path, '/')+1:]
	model, method := cutLast(last, ":")
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		q.API = Chat
	case last == "responses":
		q.API = Responses
	case last == "messages":
		q.API = Anthropic
	case method == "generateContent", method == "streamGenerateContent":
		q.API, q.Model, q.Stream = Gemini, unescape(model), method == "streamGenerateContent"
		q.Vertex = strings.Contains(path, "/publishers/") || strings.Contains(path, "/projects/")
		q.List = q.Stream && r.URL.Query().Get("alt") != "sse"
	case last == "converse", last == "converse-stream":
		q.API, q.Model, q.Stream = Bedrock, unescape(before(path)), last == "converse-stream"
	default:
		return q, fmt.Errorf("no API has the path %s: send …/chat/completions, …/responses, …/messages, "+
			"…/models/MODEL:generateContent, …:streamGenerateContent, /model/MODEL/converse or …/converse-stream", r.URL.Path)
	}
	if r.Method != http.MethodPost {
		return q, fmt.Errorf("%s is sent by POST, not by %s", r.URL.Path, r.Method)
	}
	var b struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Opts   struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return q, fmt.Errorf("the body is no JSON object of the API: %w", err)
	}
	if q.API != Gemini && q.API != Bedrock {
		q.Model, q.Stream, q.Usage = b.Model, b.Stream, b.Opts.Usage
		if _, deployment, ok := strings.Cut(path, "/deployments/"); ok && q.Model == "" { // Azure's dated API
			q.Model, _, _ = strings.Cut(deployment, "/")
		}
		if q.Model == "" {
			return q, errors.New("you must provide a model parameter")
		}
	}
	return q, nil
}

// about is the number of tokens in so many bytes.
func about(n int) int { return (n + 3) / 4 }

// cutLast is what comes before the last sep, and what after it. Without one all comes before.
func cutLast(s, sep string) (head, tail string) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i+len(sep):]
}

// before is the segment before the last.
func before(path string) string {
	head, _ := cutLast(path, "/")
	_, seg := cutLast(head, "/")
	return seg
}

func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// m is a JSON object.
type m = map[string]any

// list is a JSON array that is never null.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// text is v as JSON.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("wire: a value that is no JSON: " + err.Error()) // tool arguments are checked before
	}
	return string(b)
}
