package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm/llmtest/internal/wire"
)

// ProviderConfig says what a [Provider] does. The zero value answers every request with "ok".
type ProviderConfig struct {
	// Routes are asked in order; the first whose conditions a request meets says what is done with it. What none is for is
	// answered with "ok".
	Routes []Route
	// Seed is that of all draws. The n-th request draws the same with the same Seed, 0 too.
	Seed uint64
	// Log is told each exchange at its end, one at a time. nil: nobody is.
	Log func(Exchange)
}

// Turns is the configuration of a provider that does one turn a request and repeats the last one for ever.
func Turns(turns ...Turn) ProviderConfig { return ProviderConfig{Routes: []Route{{Turns: turns}}} }

// A Provider is an HTTP server that speaks as model providers do, and fails as they do: OpenAI Chat Completions and Responses,
// Anthropic Messages, Gemini of both Google's APIs, and Bedrock Converse, whole and streamed. It takes any key and tells by a
// request's path which API is meant, so that one Provider stands for all of them. It logs every request.
type Provider struct {
	// URL is where it is, such as "http://127.0.0.1:4321", without a path.
	URL string

	cfg    ProviderConfig
	routes []*route
	began  time.Time
	server *http.Server
	client *http.Client
	served chan struct{} // closed once nothing is accepted any more
	done   chan struct{} // closed by Close

	conns, busy gauge
	closing     sync.Once
	logging     sync.Mutex // around Log
	routing     sync.Mutex // around the routes' scripts

	mu    sync.Mutex
	idle  sync.Cond // no request is under way
	log   []*Exchange
	under int // requests under way
}

// NewProvider starts a Provider on loopback, which ends with the test. It panics where cfg cannot be meant.
func NewProvider(t testing.TB, cfg ProviderConfig) *Provider {
	t.Helper()
	mustMean(&cfg)
	p, err := StartProvider("127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// NewPipeProvider starts a Provider on connections in memory, for tests in a bubble of testing/synctest, whose clock it then goes
// by. Only [Provider.Client] reaches it. It panics where cfg cannot be meant.
func NewPipeProvider(t testing.TB, cfg ProviderConfig) *Provider {
	t.Helper()
	mustMean(&cfg)
	p := startPipe(cfg)
	t.Cleanup(p.Close)
	return p
}

func startPipe(cfg ProviderConfig) *Provider {
	l := newPipes()
	p := newProvider(cfg, &http.Transport{DialContext: l.dial})
	p.serve(l)
	return p
}

func mustMean(cfg *ProviderConfig) {
	if wrong := cfg.check(false); wrong != nil {
		panic("llmtest: ProviderConfig: " + wrong.Error())
	}
}

// StartProvider starts a Provider at an address such as "127.0.0.1:0", for programs. The caller closes it. The error says what
// of cfg cannot be meant, or that the address is taken.
func StartProvider(addr string, cfg ProviderConfig) (*Provider, error) {
	if wrong := cfg.check(false); wrong != nil {
		return nil, wrong
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("nothing can listen at %s: %w", addr, err)
	}
	p := newProvider(cfg, &http.Transport{})
	p.serve(l)
	return p, nil
}

func newProvider(cfg ProviderConfig, transport *http.Transport) *Provider {
	p := &Provider{
		cfg: cfg, began: time.Now(), client: &http.Client{Transport: transport}, served: make(chan struct{}), done: make(chan struct{}),
	}
	p.idle.L = &p.mu
	for i := range cfg.Routes {
		p.routes = append(p.routes, newRoute(&cfg.Routes[i]))
	}
	p.routes = append(p.routes, newRoute(&Route{}))
	return p
}

func (p *Provider) serve(l net.Listener) {
	p.URL = "http://" + l.Addr().String()
	p.server = &http.Server{
		Handler: p, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), ReadHeaderTimeout: time.Minute,
	}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(counted{l, p})
	}()
}

// Close ends all connections and waits until nothing of the Provider runs any more.
func (p *Provider) Close() {
	p.closing.Do(func() {
		close(p.done)
		_ = p.server.Close()
	})
	<-p.served
	p.Wait()
	p.client.CloseIdleConnections()
}

// Client is a client with connections of its own, which end with the Provider.
func (p *Provider) Client() *http.Client { return p.client }

// Exchanges lists the requests so far, those under way too, in the order in which they came.
func (p *Provider) Exchanges() []Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Exchange, len(p.log))
	for i, x := range p.log {
		all[i] = x.clone()
	}
	return all
}

// Count is the number of requests so far.
func (p *Provider) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.log)
}

// Wait waits until no request is under way. A client has its answer a little before the log knows how the exchange ended.
func (p *Provider) Wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.under > 0 {
		p.idle.Wait()
	}
}

// Connections is how many connections are open, and how many were at once at most.
func (p *Provider) Connections() (open, most int) { return p.conns.read() }

// Concurrent is how many requests are under way, and how many were at once at most.
func (p *Provider) Concurrent() (now, most int) { return p.busy.read() }

// maxBody is how much of a request is read.
const maxBody = 64 << 20

// ServeHTTP does with a request what its route says.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, readErr := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	q, err := wire.Read(r, body)
	if readErr != nil {
		err = fmt.Errorf("the body could not be read: %w", readErr)
	}
	x := p.begin(w, r, q, body)
	defer p.end(x)
	if err != nil {
		x.misread(err)
		return
	}
	x.tools(body)
	turn, limits := p.choose(x)
	x.do(turn, limits)
	if p.closed() { // what is not whole is not to look so
		x.abort()
	}
}

func (p *Provider) begin(w http.ResponseWriter, r *http.Request, q wire.Request, body []byte) *exchange {
	x := &exchange{p: p, w: w, r: r, q: q, row: newExchange(r, q, body)}
	x.row.Concurrent = p.busy.add(1)
	p.mu.Lock()
	p.under++
	p.log = append(p.log, x.row)
	x.row.N = len(p.log)
	x.row.Since = time.Since(p.began)
	p.mu.Unlock()
	x.id = "made-up-" + strconv.Itoa(x.row.N)
	x.rand = rand.New(rand.NewPCG(p.cfg.Seed, uint64(x.row.N))) //nolint:gosec // draws are to be the same each time
	x.stop = context.AfterFunc(r.Context(), func() { x.note(x.row.hangUp) })
	return x
}

// end closes the row of an exchange. Where the provider itself hung up, nobody else did.
func (p *Provider) end(x *exchange) {
	broken := recover()
	x.stop()
	x.note(func() {
		if x.r.Context().Err() != nil { // and nobody has noted it yet
			x.row.hangUp()
		}
		x.row.Took = time.Since(x.row.At)
		x.row.Done = true
		if x.ended || p.closed() {
			x.row.HungUp, x.row.HungUpAfter = false, 0
		}
	})
	p.busy.add(-1)
	if p.cfg.Log != nil {
		p.logging.Lock()
		p.mu.Lock()
		row := x.row.clone()
		p.mu.Unlock()
		p.cfg.Log(row)
		p.logging.Unlock()
	}
	p.mu.Lock()
	if p.under--; p.under == 0 {
		p.idle.Broadcast()
	}
	p.mu.Unlock()
	if broken != nil {
		panic(broken)
	}
}

func (p *Provider) closed() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Serve answers a request with a in the protocol that the request is of: it is the Serve of a [Wire] for every API that a
// [Provider] speaks.
func Serve(w http.ResponseWriter, r *http.Request, a Answer) {
	body, _ := io.ReadAll(r.Body)
	q, err := wire.Read(r, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said := wire.Answer{ID: "1", Text: a.Text, Calls: a.Calls, Usage: a.Usage}
	said.Fill(q)
	w.Header().Set("Content-Type", q.Media())
	if !q.Stream {
		_, _ = io.WriteString(w, said.Whole(q, a.NoEnd))
		return
	}
	after := func(i int) {
		_ = http.NewResponseController(w).Flush()
		if a.After != nil {
			a.After(i)
		}
	}
	begun := false
	for seq, e := range said.Events(q) {
		if e.Kind != wire.Frame && !begun {
			begun = true
			after(-1)
		}
		if a.Garbage > 0 && e.Text == a.Garbage+1 {
			_, _ = io.WriteString(w, q.Garbage(true, seq))
		}
		if a.NoEnd && e.Kind >= wire.Finish {
			return
		}
		_, _ = io.WriteString(w, e.Data)
		if e.Text > 0 {
			after(e.Text - 1)
		}
	}
}

// tools remembers the first tool of a request, which a failure may name.
func (x *exchange) tools(body []byte) {
	type function struct{ Name string }
	var b struct {
		Tools []struct {
			Name         string
			Function     function
			Declarations []function `json:"functionDeclarations"`
		}
		ToolConfig struct {
			Tools []struct {
				Spec function `json:"toolSpec"`
			}
		}
	}
	if json.Unmarshal(body, &b) != nil {
		return
	}
	for _, t := range b.Tools {
		names := []string{t.Name, t.Function.Name}
		for _, d := range t.Declarations {
			names = append(names, d.Name)
		}
		if name := strings.Join(names, ""); name != "" && x.tool == "" {
			x.tool = name
		}
	}
	if len(b.ToolConfig.Tools) > 0 {
		x.tool = b.ToolConfig.Tools[0].Spec.Name
	}
}

// hidden is what stands in the log in the place of a key.
const hidden = "(hidden)"

// withoutKeys is a request's address and headers as they may be logged.
func withoutKeys(u *url.URL, h http.Header) (path string, out http.Header) {
	out = h.Clone()
	for name := range out {
		if isKey(name) {
			out.Set(name, hidden)
		}
	}
	query := u.Query()
	for name := range query {
		if isKey(name) {
			query.Set(name, hidden)
		}
	}
	if path = u.EscapedPath(); len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, out
}

// isKey tells by its name what carries a key, a token or a signature.
func isKey(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"auth", "key", "token", "secret", "cookie", "signature", "credential", "password"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
