// Package anthropic speaks to Anthropic's Messages API and to everything that speaks like it.
//
// A [Model] makes exactly one HTTP request a call: it neither retries nor waits, which is what the stages around it are for.
// Whatever goes wrong comes back as an *llm.Error that is already classified and carries what the wire showed: status,
// headers, type, the start of the body, how far the request got and what had arrived of the answer. Keys are taken out of
// all of it, however short they are down to four bytes; words that stand for no key, such as "none" and "ollama", stay.
//
// Requests are built by, and sent through, the official github.com/anthropics/anthropic-sdk-go with its retries, its spans
// and its look at the environment off; [Model.Client] gives its client for calls that are no messages. Answers and failures
// are read here, over the same http.Client: the SDK takes a stream that ends too early, a page, or an error without framing
// for a good end.
//
// # What is mapped
//
// What a model can do is told by [Capabilities]: streaming, tools and several calls of them in one answer, images and files,
// by its generation JSON by schema, reasoning effort and the continuation of an assistant's message; never audio or JSON
// without a schema, which are refused with llm.Unsupported.
//
// A request is mapped so:
//   - System and all messages of the role system are the system text, wherever they stand. Neighbouring messages of one role
//     become one turn, with the results of tools before all else.
//   - Tools, every ToolChoice, Format, Temperature, TopP and Stop have their counterparts; Effort is output_config.effort;
//     without MaxTokens, Config.MaxTokens is sent. Seed has no counterpart and is not sent.
//   - Images go by Data, URL or the id of an uploaded file as URL ("file_…"), PDF too, and text files by Data. Results of
//     tools may hold images and files.
//   - Reasoning is sent back with its signature; without one it is another provider's and left out, as empty texts are.
//
// An answer is read so:
//   - text, thinking and tool_use are text, reasoning and tool calls.
//   - end_turn and stop_sequence, max_tokens, tool_use and refusal are stop reasons, of which refusal makes the answer a
//     refusal, with its explanation as Response.Refusal; others, such as pause_turn, are llm.StopOther. An answer that filled
//     the model's window is an llm.TooLong error.
//   - Usage.Input holds what was read from and written to the cache; thinking tokens are Usage.Reasoning.
//   - RequestID is the header Request-Id, else the request_id of an error, else the message's id.
//
// What has no place in this library's vocabulary passes through Extra["anthropic"]. That of a Request is merged into the
// body: thinking, metadata, server tools. That of a Part is merged into its block: cache_control, citations. A Part of an
// answer carries there what its block had beyond text and call, such as the signature of a thinking block, and giving the
// Part back unchanged gives the API its block back. A block without a counterpart, such as redacted thinking or the
// traffic of a server tool, is a reasoning Part without text that holds the whole block. Response.Extra has the usage as it
// came and the other fields of the message.
package anthropic
