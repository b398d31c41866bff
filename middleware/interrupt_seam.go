package middleware

import (
	"slices"
	"strings"

	"github.com/modelchain/llm"
)

// seam is the request of a continuation. It holds the first words back until it is clear how much of the text so far they
// repeat.
type seam struct {
	llm.Request
	out *handedOut
	so  string // the text so far
	n   int    // deltas received

	held    strings.Builder
	at      int // where in so the words held were found last; what is before does not begin with them
	decided bool
	// Where the parts of the continuation go: after those that the answer has.
	text      int
	reasoning int
}

// A repetition of less may be chance, or meant.
const (
	leastAll   = 12 // of all of the text
	leastBytes = 24 // of its end
	leastWords = 12 // of its end, if that is three words and more
	mostEnd    = 4096
)

func newSeam(out *handedOut, so *llm.Response) *seam {
	s := &seam{Request: out.Request, out: out, so: so.Text(), text: out.text}
	for i := range so.Parts {
		if so.Parts[i].Kind == llm.PartReasoning {
			s.reasoning++
		}
	}
	return s
}

// request asks to go on with the text so far.
func (s *seam) request() *llm.Request {
	last, messages := llm.Message{Role: llm.RoleAssistant}, s.Messages
	if n := len(messages) - 1; n >= 0 && messages[n].Role == llm.RoleAssistant { // the answer began with the caller's own words
		last.Parts, messages = slices.Clone(messages[n].Parts), messages[:n]
	}
	if n := len(last.Parts) - 1; n >= 0 && last.Parts[n].Kind == llm.PartText {
		last.Parts[n].Text += s.so
	} else {
		last.Parts = append(last.Parts, llm.Text(s.so))
	}
	r := s.Require(llm.CanPrefill)
	if r.MaxTokens > 0 {
		r.MaxTokens = max(r.MaxTokens-s.out.tokens(), 1)
	}
	r.Messages = append(slices.Clip(messages), last)
	r.Sink = s.take
	return r
}

func (s *seam) take(d llm.Delta) error {
	s.n++
	switch d.Kind {
	case llm.DeltaText:
		d.Index += s.text
	case llm.DeltaReasoning:
		d.Index += s.reasoning
	}
	if s.decided || d.Kind != llm.DeltaText || d.Index > s.text {
		if err := s.end(); err != nil {
			return err
		}
		return s.out.take(d)
	}
	s.held.WriteString(d.Text)
	return s.decide(false)
}

// end hands out what is still held.
func (s *seam) end() error { return s.decide(true) }

// decide hands out the first words without what they repeat, unless more of them may tell otherwise.
func (s *seam) decide(last bool) error {
	if s.decided {
		return nil
	}
	words := s.held.String()
	if !last && s.mayBeRepeating(words) {
		return nil
	}
	s.decided = true
	if words = words[repeated(s.so, words):]; words == "" {
		return nil
	}
	return s.out.take(llm.Delta{Text: words, Index: s.text})
}

// mayBeRepeating reports whether words are somewhere in the text so far with more behind them, or are but space that it ends
// in.
func (s *seam) mayBeRepeating(words string) bool {
	i := strings.Index(s.so[s.at:], words)
	if i < 0 {
		return false
	}
	s.at += i
	return s.at+len(words) < len(s.so) || strings.TrimSpace(words) == ""
}

// repeated is how many bytes at the beginning of words are at the end of so already. The space at the end of so may come
// again or not: some providers do not take it.
func repeated(so, words string) int {
	sent := strings.TrimRight(so, " \t\r\n")
	again := len(sent) >= leastAll && strings.HasPrefix(words, sent) && !isPeriodic(so)
	if again && strings.HasPrefix(words, so) {
		return len(so)
	}
	if k := overlap(so, words); k > 0 {
		return k
	}
	cut := 0
	if again {
		cut = len(sent)
	}
	for space := so[len(sent):]; space != "" && cut < len(words) && words[cut] == space[0]; space = space[1:] {
		cut++
	}
	return cut
}

// overlap is the longest end of so that words begin with, if it is no chance and does not repeat itself: then it may well be
// meant once more.
func overlap(so, words string) int {
	for k := min(len(so), len(words), mostEnd); k >= leastWords; k-- {
		end := so[len(so)-k:]
		if !strings.HasPrefix(words, end) {
			continue
		}
		fromWord := k == len(so) || so[len(so)-k-1] == ' ' || so[len(so)-k-1] == '\n' || end[0] == ' '
		if isPeriodic(end) || k < leastBytes && (!fromWord || len(strings.Fields(end)) < 3) {
			return 0
		}
		return k
	}
	return 0
}

// isPeriodic reports whether s is one piece at least twice, of which the last may be cut.
func isPeriodic(s string) bool {
	for p := 1; p <= len(s)/2; p++ {
		if s[p:] == s[:len(s)-p] {
			return true
		}
	}
	return false
}
