package wire

import (
	"strings"

	"github.com/modelchain/llm"
)

// An Answer is what a model says. Its pieces are an event each when it is streamed, and joined when it is not.
type Answer struct {
	ID, Model string
	Reasoning []string
	Text      []string
	// Refusal: Text is the model's own refusal, where the API has a field for one.
	Refusal bool
	Calls   []llm.ToolCall
	Stop    llm.StopReason
	Usage   llm.Usage
	// NoUsage leaves the usage out.
	NoUsage bool
}

// Fill sets what is not set: usage by the length of texts, the model by the request, the stop reason by the content.
func (a *Answer) Fill(q Request) {
	if a.Model == "" {
		a.Model = q.Model
	}
	if a.Stop == "" {
		a.Stop = llm.StopEnd
		if len(a.Calls) > 0 {
			a.Stop = llm.StopToolCalls
		}
	}
	if a.Usage == (llm.Usage{}) {
		n, thought := len(a.text()), len(a.reasoning())
		for _, c := range a.Calls {
			n += len(c.Name) + len(c.Arguments)
		}
		a.Usage = llm.Usage{Input: q.Input, Output: about(n + thought), Reasoning: about(thought)}
	}
}

func (a *Answer) text() string      { return strings.Join(a.Text, "") }
func (a *Answer) reasoning() string { return strings.Join(a.Reasoning, "") }

// halves are the arguments of a call in two events at least.
func halves(c *llm.ToolCall) []string {
	args := string(c.Arguments)
	return []string{args[:len(args)/2], args[len(args)/2:]}
}

// A Kind says what part an event has in a stream.
type Kind uint8

// The kinds.
const (
	Frame  Kind = iota // neither content nor an end
	Piece              // content
	Finish             // says why the answer ended
	Done               // what comes after that
)

// An Event is one of a stream, as it is sent.
type Event struct {
	Kind Kind
	// Text is the piece of text that it has, counted from 1. 0: none.
	Text int
	Data string
}

// A stream collects events.
type stream struct {
	q      Request
	events []Event
	n      int // events that have a number of their own
}

func (s *stream) add(k Kind, data string) {
	s.events = append(s.events, Event{Kind: k, Data: data})
}

// texts adds an event for each piece of text.
func (s *stream) texts(pieces []string, event func(string) string) {
	for i, p := range pieces {
		s.events = append(s.events, Event{Piece, i + 1, event(p)})
	}
}

// Events is the answer as a stream.
func (a *Answer) Events(q Request) []Event {
	s := &stream{q: q}
	switch q.API {
	case Chat:
		a.chatEvents(s)
	case Responses:
		a.responsesEvents(s)
	case Anthropic:
		a.anthropicEvents(s)
	case Gemini:
		a.geminiEvents(s)
	case Bedrock:
		a.bedrockEvents(s)
	}
	return s.events
}

// Whole is the answer in one piece. With unfinished it does not say why it ended.
func (a *Answer) Whole(q Request, unfinished bool) string {
	var v m
	switch q.API {
	case Chat:
		v = a.chat(unfinished)
	case Responses:
		v = a.response(a.status(unfinished))
	case Anthropic:
		v = a.message(unfinished)
	case Gemini:
		v = a.content(unfinished)
	case Bedrock:
		v = a.converse(unfinished)
	}
	return text(v)
}

// Media is the media type of the answer.
func (q Request) Media() string {
	switch {
	case q.Stream && q.API == Bedrock:
		return AWS
	case q.Stream && !q.List:
		return SSE
	case q.API == Gemini:
		return JSON + "; charset=UTF-8"
	}
	return JSON
}

// IDHeader is the header that carries the id of a request. "": the API has none.
func (a API) IDHeader() string {
	switch a {
	case Chat, Responses:
		return "X-Request-Id"
	case Anthropic:
		return "Request-Id"
	case Bedrock:
		return "X-Amzn-Requestid"
	}
	return ""
}
