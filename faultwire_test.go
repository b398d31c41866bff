package llm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
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

// A script says what a provider does with a request.
type script func(exchange) llmtest.Turn

// faulty is a provider that speaks the OpenAI wire and does to each request what its script says.
type faulty struct {
	*llmtest.Provider
	name   string
	pace   pace
	script script
	noDone bool          // it leaves out the mark that an answer is over, but not its usage
	open   time.Duration // for which it keeps an answer open after its end
	began  time.Time
}

// start starts the provider. open is [llmtest.NewProvider] or [llmtest.NewPipeProvider].
func (f *faulty) start(t *testing.T, open func(testing.TB, llmtest.ProviderConfig) *llmtest.Provider) {
	f.Provider = open(t, llmtest.ProviderConfig{Routes: []llmtest.Route{{
		Func: func(x llmtest.Exchange, n int) llmtest.Turn {
			return f.script(exchange{by: f, n: n, at: f.pace.full(x.At.Sub(f.began)), prefix: prefixOf(x.Body)})
		},
	}}})
}

// withoutDone leaves out the last event of a stream.
type withoutDone struct{ http.ResponseWriter }

func (w withoutDone) Write(p []byte) (int, error) {
	if string(p) == "data: [DONE]\n\n" {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

func (w withoutDone) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP does what the script says.
func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.noDone {
		w = withoutDone{w}
	}
	f.Provider.ServeHTTP(w, r)
	if f.open == 0 {
		return
	}
	timer := time.NewTimer(f.pace.of(f.open))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// prefixOf is the beginning of an answer that a request is to go on with.
func prefixOf(body string) string {
	var b struct {
		Messages []struct{ Role, Content string }
	}
	if json.Unmarshal([]byte(body), &b) != nil || len(b.Messages) == 0 {
		return ""
	}
	if last := b.Messages[len(b.Messages)-1]; last.Role == "assistant" {
		return last.Content
	}
	return ""
}

func (f *faulty) String() string {
	var b strings.Builder
	log := f.seen()
	fmt.Fprintf(&b, "%s was asked %d times\n", f.name, len(log))
	for i, l := range log {
		fmt.Fprintf(&b, "  %d. at %v: %s, status %d, after %d words the client left: %v", i+1, l.at.Round(time.Millisecond), l.Did,
			l.Status, l.Pieces, l.HungUp)
		if l.prefix != "" {
			fmt.Fprintf(&b, ", to go on with %d words", len(strings.Fields(l.prefix)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// logged is a request as the provider saw it, at a time of the scenario.
type logged struct {
	llmtest.Exchange
	at     time.Duration
	prefix string // of the answer that it was to go on with
}

// seen is the log so far.
func (f *faulty) seen() []logged {
	var all []logged
	for _, x := range f.Exchanges() {
		all = append(all, logged{x, f.pace.full(x.At.Sub(f.began)), prefixOf(x.Body)})
	}
	return all
}

// exchange is the n-th request to a provider, which came at that time of the scenario.
type exchange struct {
	by     *faulty
	n      int
	at     time.Duration
	prefix string
}

// words is the length of an answer, perWord the time between two of its words, one event each.
const (
	words   = 60
	perWord = 50 * time.Millisecond
)

// word is the i-th word of the provider's answer: p07 for the primary's eighth.
func (x exchange) word(i int) string {
	w := fmt.Sprintf("%c%02d", x.by.name[0], i)
	if i > 0 {
		w = " " + w
	}
	return w
}

// isWell is the script of a provider that is well: it tells the words that the client does not have yet, and its usage, of
// which a word is a token.
func isWell(x exchange) llmtest.Turn {
	gap := llmtest.Latency{Fixed: x.by.pace.of(perWord)}
	t := llmtest.Turn{
		First: gap, Gap: gap, Model: x.by.name + "-wire", Usage: llm.Usage{Input: inputOf(x.by.name), Output: words},
	}
	for i := len(strings.Fields(x.prefix)); i < words; i++ {
		t.Pieces = append(t.Pieces, x.word(i))
	}
	return t
}

func inputOf(name string) int { return 100 + len(name) }

// breaking does that to an answer after so many words. What is silent is so for that time.
func breaking(act llmtest.Act, at int, silence time.Duration) script {
	return func(x exchange) llmtest.Turn {
		t := isWell(x)
		t.Do, t.At, t.Hold = act, at, x.by.pace.of(silence)
		return t
	}
}

// first does to the first n requests what the fault says, and answers the rest.
func first(n int, fault script) script {
	return func(x exchange) llmtest.Turn {
		if x.n <= n {
			return fault(x)
		}
		return isWell(x)
	}
}

// refuses answers with a status and an error of that message and code.
func refuses(status int, message, code string) script {
	return func(exchange) llmtest.Turn {
		body := fmt.Sprintf(`{"error":{"message":%q,"type":"error","code":%q}}`, message, code)
		return llmtest.Turn{Do: llmtest.DoRaw, Status: status, Body: body, ContentType: "application/json"}
	}
}
