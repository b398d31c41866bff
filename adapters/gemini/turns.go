package gemini

import (
	"slices"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
)

const (
	roleUser  = "user"
	roleModel = "model"

	// foreignSignature is the documented stand-in for the signature of a call that this model did not make.
	foreignSignature = "skip_thought_signature_validator"
)

// A content is a turn of the conversation.
type content struct {
	Role  string  `json:"role,omitempty"`
	Parts []*part `json:"parts"`

	results int // leading parts that are tool results
}

// A builder writes one request.
type builder struct {
	m     *Model
	model string
	body  body
	calls map[string]known // the tool calls so far, by id
	n     int              // how many there were
}

// known is a tool call that was made before: its tool, and its place among the calls.
type known struct {
	name string
	at   int
}

// messages writes the conversation. System messages join the system text, wherever they stand: the API has no such turns.
// Neighbours of one role become one turn, so that the results of parallel calls follow their calls together, as the API
// demands.
func (b *builder) messages(req *llm.Request) *llm.Error {
	if req.System != "" {
		b.system(&part{Text: &req.System})
	}
	for i := range req.Messages {
		from := &req.Messages[i]
		var err *llm.Error
		switch from.Role {
		case llm.RoleSystem:
			err = b.systemMessage(from, i)
		case llm.RoleUser, llm.RoleTool, "":
			err = b.turn(from, i, roleUser)
		case llm.RoleAssistant:
			err = b.turn(from, i, roleModel)
		default:
			err = adapter.Invalid("Messages[%d] has the unknown role %q", i, from.Role)
		}
		if err != nil {
			return err
		}
	}
	if len(b.body.Contents) == 0 { // the API answers nothing but a turn
		if b.body.SystemInstruction == nil {
			return adapter.Invalid("the messages of the request are empty")
		}
		b.body.Contents = []*content{{Role: roleUser, Parts: b.body.SystemInstruction.Parts}}
		b.body.SystemInstruction = nil
	}
	if version(b.model) >= 30 && strings.Contains(b.model, "gemini-") {
		for _, c := range b.body.Contents {
			c.sign()
		}
	}
	return nil
}

func (b *builder) system(p *part) {
	if b.body.SystemInstruction == nil {
		b.body.SystemInstruction = &content{}
	}
	b.body.SystemInstruction.Parts = append(b.body.SystemInstruction.Parts, p)
}

func (b *builder) systemMessage(from *llm.Message, i int) *llm.Error {
	for j := range from.Parts {
		p, at := &from.Parts[j], adapter.Place{Message: i, Part: j}
		if p.Kind != llm.PartText && p.Kind != "" {
			return adapter.Unsupported("%v is of kind %s; a system message is text here", at, p.Kind)
		}
		out, err := b.part(p, at)
		if err != nil {
			return err
		}
		if out != nil {
			b.system(out)
		}
	}
	return nil
}

// turn adds a message to its turn. Tool results come before all else in it, in the order of their calls: a call that has no
// id is known by its place.
func (b *builder) turn(from *llm.Message, i int, role string) *llm.Error {
	n := len(b.body.Contents)
	var to *content
	if n > 0 && b.body.Contents[n-1].Role == role {
		to = b.body.Contents[n-1]
	} else {
		to = &content{Role: role}
	}
	for j := range from.Parts {
		p, err := b.part(&from.Parts[j], adapter.Place{Message: i, Part: j})
		switch {
		case err != nil:
			return err
		case p == nil:
		case p.FunctionResponse != nil:
			to.Parts = slices.Insert(to.Parts, to.results, p)
			to.results++
		default:
			to.Parts = append(to.Parts, p)
		}
	}
	slices.SortStableFunc(to.Parts[:to.results], func(x, y *part) int { return b.place(x) - b.place(y) })
	if len(to.Parts) > 0 && (n == 0 || b.body.Contents[n-1] != to) {
		b.body.Contents = append(b.body.Contents, to)
	}
	return nil
}

// place is where the call that a result answers stands among the calls; those without a call come last.
func (b *builder) place(result *part) int {
	if c, ok := b.calls[result.callID]; ok {
		return c.at
	}
	return b.n
}

// sign marks the first call of a turn that has calls and no signature: models from Gemini 3 on refuse a turn of which they
// cannot tell that it was theirs, such as another model's after a fallback.
func (c *content) sign() {
	var first *part
	for _, p := range c.Parts {
		if p.FunctionCall == nil {
			continue
		}
		if p.signed() {
			return
		}
		if first == nil {
			first = p
		}
	}
	if first != nil {
		first.ThoughtSignature = foreignSignature
	}
}
