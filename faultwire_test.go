package llm_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// pace is how fast the time of a scenario passes: in full length, or divided for clocks that are real.
type pace struct {
	div   int
	slack time.Duration // by which real scheduling may be late, as time of the scenario
}

func (p pace) of(d time.Duration) time.Duration { return d / time.Duration(p.div) }

// since is how much of the scenario has passed.
func (p pace) since(t time.Time) time.Duration { return p.full(time.Since(t)) }

// full is how much time of the scenario a real one is.
func (p pace) full(d time.Duration) time.Duration { return time.Duration(p.div) * d }

// faulty is a provider that speaks the OpenAI wire, does to each request what its script says and keeps a log.
type faulty struct {
	name   string
	pace   pace
	script func(x *exchange)

	mu    sync.Mutex
	began time.Time
	log   []logged
}

// logged is a request as the provider saw it.
type logged struct {
	at     time.Duration
	prefix string // of the answer that it was to go on with
	said   string // what became of it
}

func (f *faulty) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s was asked %d times\n", f.name, len(f.log))
	for i, l := range f.log {
		fmt.Fprintf(&b, "  %d. at %v: %s", i+1, l.at.Round(time.Millisecond), l.said)
		if l.prefix != "" {
			fmt.Fprintf(&b, ", to go on with %d words", len(strings.Fields(l.prefix)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// seen is the log so far.
func (f *faulty) seen() []logged {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]logged(nil), f.log...)
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Stream   bool
		Messages []struct{ Role, Content string }
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	x := &exchange{w: w, r: r, by: f, n: len(f.log) + 1, at: f.pace.since(f.began)}
	if n := len(body.Messages) - 1; n >= 0 && body.Messages[n].Role == "assistant" {
		x.prefix = body.Messages[n].Content
	}
	f.log = append(f.log, logged{x.at, x.prefix, "under way"})
	f.mu.Unlock()
	if err != nil || !body.Stream {
		x.fail(http.StatusBadRequest, fmt.Sprintf(`{"error":{"message":"stream %v, %v"}}`, body.Stream, err))
		return
	}
	f.script(x)
}

// exchange is the n-th request to a provider, which came at that time of the scenario, and its answer.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	by     *faulty
	n      int
	at     time.Duration
	prefix string
	opened bool
}

// words is the length of an answer, perWord the time between two of its words, one event each.
const (
	words   = 60
	perWord = 50 * time.Millisecond
)

func (x *exchange) note(format string, args ...any) {
	x.by.mu.Lock()
	defer x.by.mu.Unlock()
	x.by.log[x.n-1].said = fmt.Sprintf(format, args...)
}

// pause reports whether the client is still there after d.
func (x *exchange) pause(d time.Duration) bool {
	timer := time.NewTimer(x.by.pace.of(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		x.note("the client left")
		return false
	}
}

func (x *exchange) fail(status int, body string) {
	x.note("status %d", status)
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = x.w.Write([]byte(body))
}

// retryAfter asks for a wait, in seconds where those are what the scenario is told in.
func (x *exchange) retryAfter(d time.Duration) {
	if x.by.pace.div == 1 {
		x.w.Header().Set("Retry-After", strconv.Itoa(int(d.Seconds())))
		return
	}
	x.w.Header().Set("Retry-After-Ms", strconv.FormatInt(x.by.pace.of(d).Milliseconds(), 10))
}

// open sends the headers of a stream.
func (x *exchange) open() {
	x.opened = true
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.w.WriteHeader(http.StatusOK)
	x.flush()
}

func (x *exchange) flush() { _ = http.NewResponseController(x.w).Flush() }

// send sends an event as it is.
func (x *exchange) send(data string) {
	_, _ = fmt.Fprintf(x.w, "data: %s\n\n", data)
	x.flush()
}

// word is the i-th word of the provider's answer: p07 for the primary's eighth.
func (x *exchange) word(i int) string {
	w := fmt.Sprintf("%c%02d", x.by.name[0], i)
	if i > 0 {
		w = " " + w
	}
	return w
}

// say streams the words up to the one called to, after those that the client has, and reports whether the client heard them.
func (x *exchange) say(to int) bool {
	if !x.opened {
		x.open()
	}
	for i := len(strings.Fields(x.prefix)); i < to; i++ {
		if !x.pause(perWord) {
			return false
		}
		x.sendWord(i)
	}
	x.prefix = strings.Repeat("said ", to)
	return true
}

func (x *exchange) sendWord(i int) {
	x.send(fmt.Sprintf(`{"id":"%s-%d","model":"%s-wire","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`,
		x.by.name, x.n, x.by.name, x.word(i)))
}

// end tells the finish reason and the usage: the provider's number of input tokens, and a word is a token.
func (x *exchange) end() {
	x.note("answered")
	x.send(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	x.send(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, inputOf(x.by.name), words))
}

func inputOf(name string) int { return 100 + len(name) }

func (x *exchange) done() { x.send("[DONE]") }

// reset closes the connection as a crash does, where there is one.
func (x *exchange) reset() {
	x.note("the connection was reset")
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.note("no reset: %v", err)
		return
	}
	if c, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}

var _ interface{ SetLinger(int) error } = (*net.TCPConn)(nil)

// isWell is the script of a provider that is well.
func isWell(x *exchange) {
	if x.say(words) {
		x.end()
		x.done()
	}
}

// first does to the first n requests what the fault says, and answers the rest.
func first(n int, fault func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		if x.n <= n {
			fault(x)
			return
		}
		isWell(x)
	}
}

// refuses answers with a status and an error of that message and code.
func refuses(status int, message, code string) func(*exchange) {
	return func(x *exchange) {
		x.fail(status, fmt.Sprintf(`{"error":{"message":%q,"type":"error","code":%q}}`, message, code))
	}
}
