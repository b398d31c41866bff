package openai

import (
	"context"
	"fmt"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
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
// An answer's items become parts in their order:
//   - the texts of a message are text parts; its refusals are Response.Refusal;
//   - a reasoning item is a reasoning part, with its summary or, where that is all there is, its content;
//   - a function_call is a tool call;
//   - what the provider's own tools leave behind (web_search_call, file_search_call, code_interpreter_call, mcp_call and others)
//     is a reasoning part without text;
//   - what waits for the caller (computer_call, custom_tool_call, mcp_approval_request and others) is a part whose Kind is the
//     item's type, and the answer stops with llm.StopToolCalls; image_generation_call is such a part as well.
//
// A part's Extra has, under the provider's name ("openai"), what belongs to it beyond the fields of a Part: ids, phase and
// annotations of texts and calls, and the whole item of all others. Give the parts of an answer back unchanged, and the API
// gets its items back. Only the provider that made them gets them, since no other could read them; reasoning is kept from it
// where it is neither encrypted nor open nor stored. A reasoning part, or one whose Kind is the item's type, with an item of
// the caller's own in Extra, such as a computer_call_output, is sent as that item. Other adapters ignore reasoning without
// text and refuse the kinds that are an item's type.
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

// Format prints what String says, whatever the verb.
func (r *Responses) Format(f fmt.State, verb rune) {
	adapter.Print(f, verb, "openai.Responses", r.String())
}

// Call makes one request. With req.Sink set the answer is streamed. The error is an *llm.Error.
func (r *Responses) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return r.m.Call(ctx, req)
}

// responses is the API of /responses.
type responses struct{}

func (responses) path() string        { return responsesPath }
func (responses) reader(*call) reader { return &output{} }
func (responses) end() string         { return "a final response" }
func (responses) bound() int          { return maxAnswer } // the last event has all of the answer in it
