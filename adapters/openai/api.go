package openai

import (
	"slices"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// An api is what differs between the two ways to ask a model.
type api interface {
	path() string
	encode(m *Model, req *llm.Request) (body []byte, model string, _ *llm.Error)
	// reader makes what reads the answer of one call.
	reader(c *call) reader
	// end is what a stream that breaks off did not get to, and bound the size in bytes of the largest event that is read.
	end() string
	bound() int
}

// A reader reads the answer of one call, as a whole or event by event.
type reader interface {
	// parse reads the first JSON value of data and returns what follows it. The methods below are about that value. ok is
	// false for what is not JSON, or no object.
	parse(data []byte) (rest []byte, ok bool)
	// isAnswer reports whether it is a whole answer. reports is the failure that the value, which is data, speaks of, as JSON
	// without the answer that it may stand in; nil: it speaks of none.
	isAnswer() bool
	reports(data []byte) []byte
	// begins reports whether it belongs to an answer.
	begins() bool
	// lossy reports whether it may hold content that cannot be read, which may not be known before it is taken in.
	lossy() bool
	// quotes is what of data, of which the value was read or could not be, may stand in an error.
	quotes(data []byte) []byte
	// note takes over what it says of the call: its names and usage.
	note(a *answer)
	// take adds it to the answer and hands its content to the sink; once nothing is missing it sets the answer's finish.
	// close ends an answer that came in one piece. Their errors are the sink's.
	take(a *answer) error
	close(a *answer) error
	// broken is why an answer with a finish is none, and nil if it is one.
	broken(a *answer, evidence string) *llm.Error
	// response is the whole answer.
	response(a *answer, provider string) *llm.Response
}

// chat is the API of /chat/completions.
type chat struct{}

func (chat) path() string          { return chatPath }
func (chat) reader(c *call) reader { return &c.chunk }
func (chat) end() string           { return "a finish reason" }
func (chat) bound() int            { return wire.MaxEvent }

func (chat) encode(m *Model, req *llm.Request) (body []byte, model string, _ *llm.Error) {
	return m.encode(req)
}

func (c *chunk) isAnswer() bool         { return c.choices && c.failure == nil && !c.isError }
func (c *chunk) quotes(d []byte) []byte { return d }
func (c *chunk) note(a *answer)         { a.note(c) }
func (c *chunk) begins() bool           { return c.chosen }
func (c *chunk) lossy() bool            { return c.lost || c.foreign && !c.choices }

func (c *chunk) take(a *answer) error {
	if c.lossy() {
		return nil
	}
	return a.add(c)
}

func (c *chunk) reports(data []byte) []byte {
	switch {
	case c.failure != nil && (c.nested || c.choices): // beside an answer, or in one as OpenRouter has it
		return slices.Concat([]byte(`{"error":`), c.failure, []byte("}"))
	case c.failure != nil, c.isError, !c.choices && !c.counted && !c.foreign && adapter.Says(data):
		return data
	}
	return nil
}

func (c *chunk) close(a *answer) error {
	if a.finish != "" {
		return nil
	}
	return a.closeCalls()
}

func (c *chunk) broken(a *answer, evidence string) *llm.Error {
	if !broken(a.finish) {
		return nil
	}
	return &llm.Error{
		Class: brokenClass(a.finish), Message: "the provider ended the answer with the finish reason " + a.finish,
		Evidence: llm.Evidence{Body: evidence, Code: a.finish},
	}
}

func (c *chunk) response(a *answer, provider string) *llm.Response { return a.response(provider) }
