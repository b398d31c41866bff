package openai

import (
	"context"

	"github.com/modelchain/llm"
)

// Responses is an [llm.Caller] for the Responses API, a POST to /responses of OpenAI, Azure and those who speak like them.
// It is immutable and safe for concurrent use. What it can do: streaming, tools, images, files, audio where a model takes
// it, JSON, JSON by schema and reasoning, but not continue an assistant's message that ends the conversation.
//
// A request is mapped so:
//   - System becomes the instructions; Messages become input items: messages, function_call and function_call_output.
//     Results of tools may hold images and files.
//   - Tools, ToolChoice, Format, MaxTokens, Temperature and TopP have their counterparts; Effort is reasoning.effort.
//   - Stop has none and is refused with llm.Unsupported; Seed, which is for providers that have it, is not sent.
//   - store is false, so that the provider keeps nothing. For OpenAI's reasoning models the reasoning is asked for in its
//     encrypted form, without which it could not be sent back.
//   - Extra["openai"], and Extra by the provider's own name, are merged into the body. Lists of tools and of include in it are
//     added to those of the request: tools that the provider runs go there. What such a request may do is the caller's to
//     say, with Request.ReplayUnsafe.
//
// An answer's items become parts in their order. Text and refusals are told apart; each reasoning item is one reasoning part,
// with its summary or, where that is all there is, its content; a function_call is a tool call. Items that the provider's own
// tools leave behind (web_search_call, file_search_call, code_interpreter_call, mcp_call and others) are reasoning parts
// without text. Items that wait for the caller (computer_call, custom_tool_call, mcp_approval_request and others) and
// image_generation_call are parts whose Kind is the item's type; with one of those at its end an answer stops with
// llm.StopToolCalls. Such parts, and those of reasoning, hold their whole item in Part.Extra under the provider's name
// ("openai"), those of text and calls the fields that have no place in a Part: ids, phase, annotations. Give the parts of an
// answer back unchanged, and the API gets its items back; only the provider that made them gets them, since no other could
// read them, and reasoning without encrypted content only where Extra asks to store.
// Other adapters ignore reasoning parts and refuse kinds of part that they do not know. A reasoning part, or one whose Kind is
// the item's type, is sent as the item that the caller puts into its Extra, such as a computer_call_output.
//
// A stream is whole once response.completed, response.incomplete or response.failed has come. Its first delta is the first
// piece of content: before it the provider has committed to nothing. The final response decides: what the pieces of text and
// arguments left out is handed out, and if they contradict it, the answer is llm.Interrupted. An error in a stream is
// classified by its code like one that came in place of an answer. A response that goes on in the background is an error,
// for this adapter does not poll.
//
// Response.Extra has the response's id, which previous_response_id of a stored one wants, and what else the provider added.
type Responses struct{ m *Model }

// NewResponses makes a Responses of the configuration that [New] takes. Config.MaxTokensField, ReasoningField and
// NoStreamUsage are about chats and not looked at. Azure with APIVersion takes Model as the name of the deployment. A mistake
// in the configuration panics.
func NewResponses(cfg Config) *Responses {
	m, err := newModel(cfg, responses{})
	if err != nil {
		panic("llm/adapters/openai: NewResponses: " + err.Error())
	}
	return &Responses{m}
}

// String says where r leads, without keys.
func (r *Responses) String() string { return r.m.String() }

// Call makes one request. With req.Sink set the answer is streamed. The error is an *llm.Error.
func (r *Responses) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return r.m.Call(ctx, req)
}

// responses is the API of /responses.
type responses struct{}

func (responses) path() string        { return responsesPath }
func (responses) reader(*call) reader { return &output{} }
func (responses) marks() []string     { return []string{`"response.`, `"delta"`} }
func (responses) end() string         { return "a final response" }
func (responses) bound() int          { return maxAnswer } // the last event has all of the answer in it
