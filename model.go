// Package llm is the vocabulary of a language-model gateway built from middleware: every model is a [Caller], stages wrap
// Callers the way net/http middleware wraps a handler, and a [Chain] is the onion they make around a [Deployment].
//
// This package holds data and composition only. It does not sleep, log, talk to a network or know a provider, and it
// imports nothing outside the standard library. The stages are in package middleware, providers in adapters.
package llm

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// A Caller answers one model request.
//
// Call must not modify or keep req, and must be safe for concurrent use. Exactly one result is non-nil; the Response
// belongs to the caller, so an implementation returns a fresh one each time.
//
// With req.Sink set, Call also hands the answer to it piece by piece: in order, from the goroutine that called Call, never
// after Call has returned. The Response is whole either way. If the sink returns an error, Call stops reading, releases what
// it holds and returns an error that wraps it.
//
// A Caller that wraps another passes on ctx and a request derived only by [Request.Clone] or the methods that clone, so
// that the account of attempts stays whole.
type Caller interface {
	Call(ctx context.Context, req *Request) (*Response, error)
}

// CallerFunc makes a function a [Caller].
type CallerFunc func(ctx context.Context, req *Request) (*Response, error)

// Call calls f.
func (f CallerFunc) Call(ctx context.Context, req *Request) (*Response, error) { return f(ctx, req) }

// A Request is one question to a model. Stages read it and pass on clones; they never write to one they received.
type Request struct {
	// Model is the model asked for, as its provider names it. A deployment with a model of its own sends that one.
	Model string
	// System is the instruction text that precedes the conversation.
	System   string
	Messages []Message

	Tools      []Tool
	ToolChoice ToolChoice
	// Format constrains the form of the answer. nil: free text.
	Format *Format

	// MaxTokens bounds the answer. 0: the provider's or deployment's own bound.
	MaxTokens int
	// Temperature and TopP steer sampling. nil: not sent.
	Temperature, TopP *float64
	// Stop lists texts that end the answer.
	Stop []string
	// Seed asks for repeatable sampling where the provider has it. nil: not sent.
	Seed *int64
	// Effort is the reasoning effort in the provider's words, such as "low" or "high". "": not sent.
	Effort string

	// Labels say whose call this is: tenant, feature, workflow. Stages key limits by them; they are never sent upstream.
	Labels map[string]string
	// Extra holds settings that pass through unread, by provider name: Extra["openai"] is a JSON object merged into the body
	// that adapters for "openai" send.
	Extra map[string]json.RawMessage

	// MaxAttempts bounds the provider calls made for this request, every retry and fallback included. 0: no bound.
	MaxAttempts int
	// ReplayUnsafe marks a request that may act on the world at the provider, such as one with server-run tools. After an
	// outcome that cannot be known it is neither retried nor moved elsewhere.
	ReplayUnsafe bool

	// Spent is what was spent on the same work before this call: by an upstream client, or by earlier deliveries from a queue.
	// Budgets of one call begin with it.
	Spent Spending `json:"-"`

	// Sink receives the answer while it is produced. nil: whole answer only.
	Sink Sink `json:"-"`

	scope scope
}

// Clone returns a shallow copy of r that belongs to the same call: what is learned about attempts is shared. It is the
// only way to derive a request for it. Slices and maps are shared, so replace them, do not write into them.
func (r *Request) Clone() *Request {
	if r == nil {
		return nil
	}
	c := *r
	return &c
}

// Role says who speaks in a [Message].
type Role string

// The roles.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // carries tool results
)

// A Message is one turn of a conversation.
type Message struct {
	Role  Role
	Parts []Part
}

// User is a user's message of one text.
func User(text string) Message { return Message{Role: RoleUser, Parts: []Part{Text(text)}} }

// Assistant is an assistant's message of one text.
func Assistant(text string) Message {
	return Message{Role: RoleAssistant, Parts: []Part{Text(text)}}
}

// Text is a text part.
func Text(text string) Part { return Part{Kind: PartText, Text: text} }

// PartKind says what a [Part] holds.
type PartKind string

// The kinds of parts.
const (
	PartText       PartKind = "text"
	PartImage      PartKind = "image"
	PartFile       PartKind = "file"
	PartAudio      PartKind = "audio"
	PartReasoning  PartKind = "reasoning"
	PartToolCall   PartKind = "tool_call"
	PartToolResult PartKind = "tool_result"
)

// A Part is one piece of a message. Kind says which fields count.
type Part struct {
	Kind PartKind
	// Text holds the words of text and reasoning parts.
	Text string
	// Data or URL hold an image, a file or audio; MIME is its media type ("image/png", "audio/wav"), Name a file's name.
	Data            []byte
	URL, MIME, Name string
	// Call is the call of a tool_call part.
	Call *ToolCall
	// Result is the result of a tool_result part.
	Result *ToolResult
	// Extra holds what one provider attached to this part or wants with it, by provider name: a reasoning signature, a cache
	// mark. Adapters of other providers ignore it.
	Extra map[string]json.RawMessage
}

// A Tool is a function that the model may ask to be run.
type Tool struct {
	Name, Description string
	// Parameters is the JSON Schema of the arguments. nil: no arguments.
	Parameters json.RawMessage
	// Strict asks the provider to enforce the schema where it can.
	Strict bool
}

// ToolMode says whether the model may, must or must not call tools.
type ToolMode string

// The tool modes. The zero value leaves it to the provider, which is "auto" wherever tools are given.
const (
	ToolAuto     ToolMode = "auto"
	ToolNone     ToolMode = "none"
	ToolRequired ToolMode = "required" // some tool
	ToolNamed    ToolMode = "named"    // the tool in ToolChoice.Name
)

// ToolChoice constrains the use of tools. The zero value does not.
type ToolChoice struct {
	Mode ToolMode
	Name string
}

// A ToolCall is the model's wish to have a tool run.
type ToolCall struct {
	ID, Name string
	// Arguments is the JSON object the model wrote. It is complete, but not checked against the tool's schema.
	Arguments json.RawMessage
}

// A ToolResult is what a tool returned, on its way back to the model.
type ToolResult struct {
	// CallID is the ID of the ToolCall it answers; Name is the tool's name.
	CallID, Name string
	Parts        []Part
	IsError      bool
}

// FormatKind says how an answer is constrained.
type FormatKind string

// The kinds of formats.
const (
	FormatJSON   FormatKind = "json"   // some JSON object
	FormatSchema FormatKind = "schema" // JSON by Schema
)

// A Format constrains the form of an answer.
type Format struct {
	Kind FormatKind
	// Name and Schema describe the answer for FormatSchema.
	Name   string
	Schema json.RawMessage
	Strict bool
}

// StopReason says why an answer ended.
type StopReason string

// The stop reasons.
const (
	StopEnd       StopReason = "end"            // the model was done, or met a stop text
	StopLength    StopReason = "length"         // the token limit cut it
	StopToolCalls StopReason = "tool_calls"     // it waits for tool results
	StopRefusal   StopReason = "refusal"        // the model declined
	StopFiltered  StopReason = "content_filter" // a filter cut it
	StopOther     StopReason = "other"
)

// A Response is a whole answer and the account of how it came about.
type Response struct {
	Parts []Part
	// Refusal is the model's own refusal text, where the provider reports one apart from the answer.
	Refusal string
	Stop    StopReason
	// StopDetail is the stop reason in the provider's words.
	StopDetail string
	// Usage is what the answering attempt consumed; earlier attempts have theirs in Attempts.
	Usage Usage
	// Model is the model as the provider named it in its answer.
	Model string
	// RequestID is the provider's id of the answering attempt, Status its HTTP status.
	RequestID string
	Status    int
	// Extra holds what a provider added beyond these fields, by provider name.
	Extra map[string]json.RawMessage

	// Deployment is the name of the leaf that answered.
	Deployment string
	// Attempts lists every provider call made or skipped for this call, in order.
	Attempts []Attempt
	// Degraded marks a stand-in given because no deployment could answer.
	Degraded bool
	// Continued marks an answer that was resumed after a break.
	Continued bool

	call *call // the call whose Deployment made this copy; nil: a Response that may be shared
}

// Text is the answer's text: its text parts joined.
func (r *Response) Text() string {
	if r == nil {
		return ""
	}
	n, first := 0, ""
	for i := range r.Parts {
		if r.Parts[i].Kind == PartText {
			if n++; n == 1 {
				first = r.Parts[i].Text
			}
		}
	}
	if n < 2 {
		return first
	}
	var b strings.Builder
	for i := range r.Parts {
		if r.Parts[i].Kind == PartText {
			b.WriteString(r.Parts[i].Text)
		}
	}
	return b.String()
}

// ToolCalls lists the tool calls of the answer.
func (r *Response) ToolCalls() []*ToolCall {
	if r == nil {
		return nil
	}
	var calls []*ToolCall
	for i := range r.Parts {
		if r.Parts[i].Kind == PartToolCall && r.Parts[i].Call != nil {
			calls = append(calls, r.Parts[i].Call)
		}
	}
	return calls
}

// Refused reports whether the answer is a refusal: by the model, or by the provider's filter. A refusal is an answer, not
// an error.
func (r *Response) Refused() bool {
	return r != nil && (r.Refusal != "" || r.Stop == StopRefusal || r.Stop == StopFiltered)
}

// Calls is the number of provider calls really made.
func (r *Response) Calls() int {
	if r == nil {
		return 0
	}
	return made(r.Attempts)
}

// An Attempt is one row of a call's account: a provider call made, or one that was not made and why.
type Attempt struct {
	// Deployment, Provider and Model name the leaf.
	Deployment, Provider, Model string
	// Index counts the provider calls of this call from 1. 0: skipped.
	Index int
	// Start is when the attempt began; Waited the time spent waiting for it before that; Took its duration; FirstDelta the
	// time from Start to the first piece of a streamed answer, 0 if there was none.
	Start                    time.Time
	Waited, Took, FirstDelta time.Duration
	// Class is 0 for an attempt that answered. Commit says how far the provider got with it.
	Class     Class
	Commit    CommitState
	reading   uint32 // ms that the reader of the stream had, about
	output    uint32 // bytes that came of an answer whose output Usage does not tell
	Status    int
	RequestID string
	Usage     Usage
	// CostUSD is the price of Usage; 0 where the deployment's price is unknown.
	CostUSD float64
	// Skipped says why no call was made. "": it was.
	Skipped string
	Err     error
}

// Answering is Took without the time that the reader of a stream had, which is measured by samples.
func (a *Attempt) Answering() time.Duration {
	return max(a.Took-time.Duration(a.reading)*time.Millisecond, a.FirstDelta, 0)
}

// OutputBytes is how much of an answer came where Usage does not tell its output, as far as known, up to 2 GiB: text,
// reasoning, refusal and tool calls, also those of a part that broke off or of an answer that was of no use. 0: Usage tells, or
// nothing came.
func (a *Attempt) OutputBytes() int { return int(a.output) }

func made(as []Attempt) int {
	n := 0
	for i := range as {
		if as[i].Skipped == "" {
			n++
		}
	}
	return n
}
