package openai

import (
	"slices"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// A chunk is one piece of an answer as the wire has it: an event of a stream, or the whole answer of a unary call, whose
// "message" stands where a stream has "delta". Its bytes are those of the event.
type chunk struct {
	scan
	id, model []byte
	choice    choice
	choices   bool // the field is there, and is a list
	chosen    bool // the list has the first choice in it
	usage     llm.Usage
	counted   bool   // there is a usage
	failure   []byte // the error, as JSON. nil: none
	nested    bool   // the error stands within something
	isError   bool   // the whole is an error by its type
	lost      bool   // the first choice holds what may be content and cannot be read
	foreign   bool   // there is content where the API has none
	extras    []member
}

// A member is a field that this adapter does not read.
type member struct{ name, value []byte }

// A choice is the first alternative; more than one is asked for only through Request.Extra, and not handed on.
type choice struct {
	index                       int
	content, reasoning, refusal []byte
	calls                       []piece
	finish                      []byte
	lost                        bool
}

// A piece continues a tool call.
type piece struct {
	index          int // -1: not said
	id, name, args []byte
}

// parse reads the first JSON value of data and returns what follows it. ok is false for what is not JSON, or no object.
func (c *chunk) parse(data []byte) (rest []byte, ok bool) {
	calls := c.choice.calls[:0]
	*c = chunk{scan: c.scan, extras: c.extras[:0], choice: choice{calls: calls}}
	c.Reset(data)
	for first := c.Open('{'); c.More(&first, '}'); {
		c.field(c.Key())
	}
	if c.Bad() {
		return nil, false
	}
	c.Peek()
	return c.Rest(), true
}

func (c *chunk) field(key []byte) {
	if c.Null() {
		return
	}
	switch string(key) {
	case "id":
		c.id = c.Text()
	case "model":
		c.model = c.Text()
	case "object", "type":
		if string(c.Text()) == "error" {
			c.isError = true
		}
	case "created", "obfuscation", "provider":
		c.Skip()
	case "choices":
		if c.misses('[', &c.lost) {
			return
		}
		c.choices = true
		for first := c.Open('['); c.More(&first, ']'); {
			c.oneChoice()
		}
	case "usage":
		c.readUsage()
	case "x_groq": // Groq puts the usage and errors of streams here
		if c.Peek() != '{' {
			c.Skip()
			return
		}
		for first := c.Open('{'); c.More(&first, '}'); {
			switch k := c.Key(); {
			case c.Null():
			case string(k) == "usage":
				c.readUsage()
			case string(k) == "error":
				c.readError(true)
			default:
				c.Skip()
			}
		}
	case "error":
		c.readError(false)
	default:
		m := member{key, c.Raw()}
		c.foreign = c.foreign || adapter.IsContent(key, m.value)
		c.extras = append(c.extras, m)
	}
}

// words reads a text. lost: it is something else, which is not nothing.
func (s *scan) words(lost *bool) []byte {
	if s.misses('"', lost) {
		return nil
	}
	return s.Text()
}

// misses passes over what does not begin with the byte c, as it should. lost: it is not nothing either.
func (s *scan) misses(c byte, lost *bool) bool {
	if s.Peek() == c {
		return false
	}
	if !s.Void() {
		*lost = true
	}
	return true
}

// readError keeps an error that says something.
func (c *chunk) readError(nested bool) {
	if raw := c.says(); raw != nil {
		c.failure, c.nested = raw, nested
	}
}

// says passes over one value and returns it, or nil for an empty one: some servers send an empty error with every chunk.
func (s *scan) says() []byte {
	switch raw := s.Raw(); string(raw) {
	case "", `""`, "{}", "[]", "false", "0":
		return nil
	default:
		return raw
	}
}

func (c *chunk) oneChoice() {
	if c.misses('{', &c.lost) {
		return
	}
	ch := choice{calls: c.choice.calls[len(c.choice.calls):]}
	for first := c.Open('{'); c.More(&first, '}'); {
		switch k := c.Key(); {
		case c.Null():
		case string(k) == "index":
			ch.index = c.Num()
		case string(k) == "delta", string(k) == "message":
			c.message(&ch)
		case string(k) == "text": // a completion server behind the chat path
			ch.content = c.words(&ch.lost)
		case string(k) == "finish_reason":
			ch.finish = c.Text()
		case string(k) == "error":
			c.readError(true)
		default:
			c.Skip()
		}
	}
	if ch.index == 0 {
		c.choice, c.chosen, c.lost = ch, true, c.lost || ch.lost
	}
}

// message reads what is added to a choice. Reasoning that is no text is passed over: it is no part of what was asked for, and
// gateways have several forms of it.
func (c *chunk) message(ch *choice) {
	if c.misses('{', &ch.lost) {
		return
	}
	for first := c.Open('{'); c.More(&first, '}'); {
		switch k := c.Key(); {
		case c.Null():
		case string(k) == "content":
			c.content(ch, 0)
		case string(k) == "refusal":
			ch.refusal = c.words(&ch.lost)
		case string(k) == "reasoning_content":
			if t := c.Text(); len(t) > 0 {
				ch.reasoning = t
			}
		case string(k) == "reasoning": // gateways send both, with the same text
			if t := c.Text(); len(ch.reasoning) == 0 {
				ch.reasoning = t
			}
		case string(k) == "tool_calls":
			if c.misses('[', &ch.lost) {
				continue
			}
			for first := c.Open('['); c.More(&first, ']'); {
				c.toolCall(ch)
			}
		case string(k) == "function_call": // before there were tools
			p := piece{}
			if c.function(&p, &ch.lost) {
				ch.calls = append(ch.calls, p)
			}
		default:
			c.Skip()
		}
	}
}

// content reads a text, or the list of parts that Mistral sends when a model reasons. Parts of a type that has no text, such as
// its references, are passed over.
func (c *chunk) content(ch *choice, depth int) {
	if c.Peek() != '[' || depth > 4 {
		ch.content = c.words(&ch.lost)
		return
	}
	for first := c.Open('['); c.More(&first, ']'); {
		if c.Peek() != '{' {
			ch.content = append(slices.Clip(ch.content), c.words(&ch.lost)...)
			continue
		}
		var kind, text []byte
		known, other := false, false
		for first := c.Open('{'); c.More(&first, '}'); {
			switch k := c.Key(); {
			case c.Null():
			case string(k) == "type":
				kind, known = c.Text(), true
			case string(k) == "text", string(k) == "refusal":
				text, known = c.words(&ch.lost), true
			case string(k) == "thinking":
				inner := choice{}
				c.content(&inner, depth+1)
				text, known = inner.content, true
			default:
				other = true
				c.Skip()
			}
		}
		ch.lost = ch.lost || other && !known
		to := &ch.content
		switch string(kind) {
		case "thinking", "reasoning":
			to = &ch.reasoning
		case "refusal":
			to = &ch.refusal
		}
		*to = append(slices.Clip(*to), text...)
	}
}

func (c *chunk) toolCall(ch *choice) {
	if c.misses('{', &ch.lost) {
		return
	}
	p := piece{index: -1}
	for first := c.Open('{'); c.More(&first, '}'); {
		switch k := c.Key(); {
		case c.Null():
		case string(k) == "index":
			p.index = c.Num()
		case string(k) == "id":
			p.id = c.Text()
		case string(k) == "function":
			c.function(&p, &ch.lost)
		default:
			c.Skip()
		}
	}
	ch.calls = append(ch.calls, p)
}

// function reads the name and arguments of a call, if they are there.
func (c *chunk) function(p *piece, lost *bool) bool {
	if c.misses('{', lost) {
		return false
	}
	for first := c.Open('{'); c.More(&first, '}'); {
		switch k := c.Key(); {
		case c.Null():
		case string(k) == "name":
			p.name = c.words(lost)
		case string(k) == "arguments":
			if c.Peek() == '{' { // an object instead of its text, as Ollama's own API has it
				p.args = c.Raw()
			} else {
				p.args = c.words(lost)
			}
		default:
			c.Skip()
		}
	}
	return true
}

func (c *chunk) readUsage() {
	if u, ok := c.tokens(); ok {
		c.usage, c.counted = u, true
	}
}

// tokens reads a usage, in the words of either API. ok is false for what is none.
func (s *scan) tokens() (u llm.Usage, ok bool) {
	if s.Peek() != '{' {
		s.Skip()
		return u, false
	}
	for first := s.Open('{'); s.More(&first, '}'); {
		switch k := s.Key(); {
		case s.Null():
		case string(k) == "prompt_tokens", string(k) == "input_tokens":
			u.Input = s.count(&u)
		case string(k) == "completion_tokens", string(k) == "output_tokens":
			u.Output = s.count(&u)
		case string(k) == "prompt_cache_hit_tokens": // DeepSeek
			u.CachedInput = max(u.CachedInput, s.count(&u))
		case string(k) == "prompt_tokens_details", string(k) == "input_tokens_details":
			s.details(&u)
		case string(k) == "completion_tokens_details", string(k) == "output_tokens_details":
			s.details(&u)
		case string(k) == "reasoning_tokens":
			u.Reasoning = max(u.Reasoning, s.count(&u))
		default:
			s.Skip()
		}
	}
	return adapter.WithCached(u), true
}

// count reads a number of tokens. One that is none is 0, and what was told an estimate.
func (s *scan) count(u *llm.Usage) int {
	n, ok := wire.Count(s.Raw())
	u.Estimated = u.Estimated || !ok
	return n
}

func (s *scan) details(u *llm.Usage) {
	if s.Peek() != '{' {
		s.Skip()
		return
	}
	for first := s.Open('{'); s.More(&first, '}'); {
		switch k := s.Key(); {
		case s.Null():
		case string(k) == "cached_tokens":
			u.CachedInput = max(u.CachedInput, s.count(u))
		case string(k) == "cache_write_tokens", string(k) == "cache_creation_tokens":
			u.CacheWrite = max(u.CacheWrite, s.count(u))
		case string(k) == "reasoning_tokens":
			u.Reasoning = max(u.Reasoning, s.count(u))
		default:
			s.Skip()
		}
	}
}
