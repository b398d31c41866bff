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
	out  *handedOut
	so   string // the text so far
	sent string // so without the space at its end, which some providers refuse
	n    int    // deltas received

	held    strings.Builder
	decided bool
	// Where the parts of the continuation go: after those that the answer has.
	text      int
	reasoning int
}

// A repetition shorter than this may be chance.
const leastRepeated = 24

func newSeam(out *handedOut, so *llm.Response) *seam {
	s := &seam{Request: out.Request, out: out, so: so.Text(), text: out.text}
	s.sent = strings.TrimRight(s.so, " \t\r\n")
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
		last.Parts[n].Text += s.sent
	} else {
		last.Parts = append(last.Parts, llm.Text(s.sent))
	}
	r := s.Require(llm.CanPrefill)
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
	cut, open := repeated(s.so, s.sent, words)
	if open && !last {
		return nil
	}
	s.decided = true
	if words = words[cut:]; words == "" {
		return nil
	}
	return s.out.take(llm.Delta{Text: words, Index: s.text})
}

// repeated is how many bytes at the beginning of words are at the end of so already. open says that more words may tell
// otherwise. sent is what the continuation was asked to go on with: so without the space at its end, which may come again.
func repeated(so, sent, words string) (cut int, open bool) {
	for k := len(so); k > 0; k-- {
		end := so[len(so)-k:]
		if k > len(words) {
			open = open || strings.HasPrefix(end, words)
		} else if (k >= leastRepeated || k == len(so)) && strings.HasPrefix(words, end) {
			return k, open
		}
	}
	for k := len(sent); k > 0 && cut == 0; k-- {
		if (k >= leastRepeated || k == len(sent)) && strings.HasPrefix(words, sent[len(sent)-k:]) {
			cut = k
		}
	}
	space := so[len(sent):]
	for space != "" && cut < len(words) && words[cut] == space[0] {
		cut, space = cut+1, space[1:]
	}
	return cut, open || space != "" && cut == len(words)
}
