package llmtest

import (
	"net/http"
	"time"

	"github.com/modelchain/llm/llmtest/internal/wire"
)

// An Exchange is a row of a [Provider]'s log: a request and what became of it. Keys are not in it, apart from what a body holds.
type Exchange struct {
	// N counts the requests from 1.
	N int `json:"n"`
	// At is when it came, Since the time from the start of the provider until then.
	At    time.Time     `json:"at"`
	Since time.Duration `json:"since_ns"`
	// Took is the time until its end. 0: it is under way, until Done.
	Took time.Duration `json:"took_ns"`
	Done bool          `json:"done"`
	// API is "chat", "responses", "anthropic", "gemini" or "bedrock". "": no API has the path.
	API    string `json:"api"`
	Method string `json:"method"`
	// Path is the path with the query.
	Path   string      `json:"path"`
	Model  string      `json:"model"`
	Stream bool        `json:"stream"`
	Header http.Header `json:"header"`
	// Body is the start of the body, at most 64 KiB.
	Body string `json:"body"`
	// Concurrent is how many requests were under way when it came, with it.
	Concurrent int `json:"concurrent"`
	// Route is the name of its route, Did of its turn, or the turn's act.
	Route string `json:"route"`
	Did   string `json:"did"`
	// Status is the status that it was answered. 0: none.
	Status int `json:"status"`
	// Pieces is how many pieces of content were sent of a stream.
	Pieces int `json:"pieces"`
	// HungUp: the client left before the end, HungUpAfter that time.
	HungUp      bool          `json:"hung_up"`
	HungUpAfter time.Duration `json:"hung_up_after_ns"`
}

// maxLogged is how much of a body is kept.
const maxLogged = 64 << 10

func newExchange(r *http.Request, q wire.Request, body []byte) *Exchange {
	x := &Exchange{
		At: time.Now(), API: string(q.API), Method: r.Method, Model: q.Model, Stream: q.Stream,
		Body: string(body[:min(len(body), maxLogged)]),
	}
	x.Path, x.Header = withoutKeys(r.URL, r.Header)
	return x
}

func (x *Exchange) clone() Exchange {
	out := *x
	out.Header = x.Header.Clone()
	return out
}

func (x *Exchange) hangUp() {
	if !x.Done && !x.HungUp {
		x.HungUp, x.HungUpAfter = true, time.Since(x.At)
	}
}
