package llmtest

import (
	"cmp"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest/internal/wire"
)

// exchange is a request while it is answered.
type exchange struct {
	p     *Provider
	w     http.ResponseWriter
	r     *http.Request
	q     wire.Request
	row   *Exchange // guarded by the Provider's mutex
	id    string
	tool  string
	rand  *rand.Rand
	spent bool // it is tokens that the quota has no more of
	ended bool // the connection was ended here
	stop  func() bool
}

// note writes to the row.
func (x *exchange) note(f func()) {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	f()
}

// pause reports whether the client is still there after d.
func (x *exchange) pause(d time.Duration) bool {
	if d <= 0 {
		return x.r.Context().Err() == nil && !x.p.closed()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
	case <-x.p.done:
	}
	return false
}

// hold says nothing for d, or until the client leaves, and ends the connection.
func (x *exchange) hold(d time.Duration) {
	if d > 0 {
		if !x.pause(d) {
			return
		}
	} else {
		select {
		case <-x.r.Context().Done():
			return
		case <-x.p.done:
			return
		}
	}
	x.abort()
}

// abort ends the connection as if the server had died.
func (x *exchange) abort() {
	x.note(func() { x.ended = true })
	panic(http.ErrAbortHandler)
}

// do does a turn.
func (x *exchange) do(t Turn, left limits) {
	if !x.pause(t.Wait.draw(x.rand)) {
		return
	}
	x.q.API.Tell(x.w.Header(), left.requests, left.tokens, time.Now())
	if name := x.q.API.IDHeader(); name != "" {
		x.w.Header().Set(name, "req-"+x.id)
	}
	blocked := t.Do == DoContentPolicy && (x.q.API == wire.Gemini || x.q.API == wire.Bedrock)
	switch {
	case t.fails() && !blocked:
		x.fail(&t, left)
		return
	case t.Do == DoPage:
		x.reply(&t, wire.Page(cmp.Or(t.Status, http.StatusBadGateway)))
		return
	case t.Do == DoRaw:
		x.reply(&t, wire.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {x.q.Media()}}, Body: t.Body})
		return
	case t.Do == DoBlank:
		x.reply(&t, wire.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {x.q.Media()}}})
		return
	case t.Do == DoSilence:
		x.hold(t.Hold)
		return
	case t.Do == DoReset, t.Do == DoResetHeaders, t.Do == DoClose:
		x.breakUp(t.Do, "")
		return
	}
	if x.q.Stream {
		x.streamed(&t)
		return
	}
	x.whole(&t)
}

// facts are what a failure tells of this exchange.
func (x *exchange) facts(t *Turn, left limits) wire.Facts {
	f := wire.Facts{Status: t.Status, Wait: t.RetryAfter, Tool: x.tool, Tokens: x.spent, Per: left.per}
	switch {
	case f.Tokens && left.tokens != nil:
		f.Max = left.tokens.Max
	case left.requests != nil:
		f.Max = left.requests.Max
	}
	return f
}

func (x *exchange) fail(t *Turn, left limits) {
	f := x.q.Fail(wire.Failure(t.Do), x.facts(t, left))
	if t.Body != "" {
		f.Body = t.Body
	}
	x.reply(t, f)
}

// reply sends an answer that comes in one piece.
func (x *exchange) reply(t *Turn, f wire.Reply) {
	h := x.w.Header()
	maps.Copy(h, f.Header)
	status := cmp.Or(t.Status, f.Status)
	x.head(t, status)
	if status != http.StatusNoContent && status != http.StatusNotModified {
		_, _ = io.WriteString(x.w, f.Body)
	}
}

// head sends status and headers, with the turn's own.
func (x *exchange) head(t *Turn, status int) {
	h := x.w.Header()
	maps.Copy(h, header(t.Header))
	if t.ContentType != "" {
		h.Set("Content-Type", t.ContentType)
	}
	x.w.WriteHeader(status)
	x.note(func() { x.row.Status = status })
}

// misread answers what is no request of an API.
func (x *exchange) misread(err error) {
	x.note(func() { x.row.Did = "misread" })
	f := wire.Reply{
		Status: http.StatusNotFound, Header: http.Header{"Content-Type": {wire.JSON}},
		Body: `{"error":{"message":` + strconv.QuoteToASCII("llmtest: "+err.Error()) + `}}`,
	}
	if x.q.API != "" {
		f.Status = http.StatusBadRequest
	}
	x.reply(&Turn{}, f)
}

// answer is what a turn says.
func (x *exchange) answer(t *Turn) *wire.Answer {
	a := &wire.Answer{
		ID: x.id, Model: t.Model, Reasoning: words(t.Reasoning), Text: slices.Clone(t.Pieces), Calls: t.Calls, Stop: t.Stop,
		Usage: t.Usage, NoUsage: t.NoUsage,
	}
	if a.Text == nil {
		a.Text = words(t.Text)
	}
	empty := len(a.Text) == 0
	switch {
	case t.Do == DoRefuse:
		a.Stop = llm.StopRefusal
		if empty && x.q.API != wire.Gemini && x.q.API != wire.Anthropic { // those two tell it by the stop reason alone
			a.Text = words("I'm sorry, but I can't help with that.")
		}
	case t.Do == DoFilter:
		a.Stop = llm.StopFiltered
	case t.Do == DoContentPolicy:
		a.Stop, a.Text = llm.StopRefusal, nil
		if x.q.API == wire.Bedrock {
			a.Text = []string{"Sorry, the model cannot answer this question."} // a guardrail's own words
		}
	case t.Do == DoEmpty:
		a.Text, a.Calls, a.Reasoning = nil, nil, nil
	case empty && len(a.Calls) == 0:
		a.Text = []string{"ok"}
	}
	a.Refusal = a.Stop == llm.StopRefusal
	a.Fill(x.q)
	return a
}

// words are the words of a text, each with the space before it.
func words(text string) []string {
	var all []string
	for text != "" {
		n := strings.IndexByte(text[1:], ' ') + 1
		if n == 0 {
			n = len(text)
		}
		all, text = append(all, text[:n]), text[n:]
	}
	return all
}

// media sets the media type of the true answer, or of one that is told wrong.
func (x *exchange) media(t *Turn) {
	x.w.Header().Set("Content-Type", x.q.Media())
	if t.Do == DoWrongType {
		x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
}

// whole sends an answer in one piece, or what became of it.
func (x *exchange) whole(t *Turn) {
	a := x.answer(t)
	body := a.Whole(x.q, t.Do == DoNoFinish || t.Do == DoNoEnd)
	x.media(t)
	h, half := x.w.Header(), body[:len(body)/2]
	switch t.Do {
	case DoError:
		body = x.q.Told(x.inBand(t), x.facts(t, limits{}))
	case DoMalformed:
		body = "{what is this}"
	case DoTruncated:
		body = half
	case DoCut:
		h.Set("Transfer-Encoding", "identity")
		body = half
	case DoResetBody, DoStall:
		h.Set("Content-Length", strconv.Itoa(len(body)))
		body = half
	}
	x.head(t, cmp.Or(t.Status, http.StatusOK))
	if t.Do == DoCutChunk {
		x.breakUp(t.Do, half)
		return
	}
	if !x.pause(t.First.draw(x.rand)) {
		return
	}
	_, _ = io.WriteString(x.w, body)
	if t.Do == DoResetBody || t.Do == DoStall {
		x.flush()
		x.breakOff(t)
	}
}

// inBand is the failure that an answer of status 200 turns out to be.
func (x *exchange) inBand(t *Turn) wire.Failure {
	if t.Error == "" {
		return wire.Overloaded
	}
	return wire.Failure(t.Error)
}

func (x *exchange) flush() { _ = http.NewResponseController(x.w).Flush() }
