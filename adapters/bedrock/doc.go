// Package bedrock speaks to Amazon Bedrock's Converse API, and so to every model that it serves.
//
// A [Model] makes exactly one HTTP request a call: it neither retries nor waits, which is what the stages around it are for.
// Whatever goes wrong comes back as an *llm.Error that is already classified and carries what the wire showed: status,
// headers, exception, the start of the body, how far the request got and what had arrived of the answer. Keys and tokens are
// taken out of all of it, however short they are down to four bytes; words that stand for no key, such as "none", stay.
//
// Requests are addressed, signed and sent by the official github.com/aws/aws-sdk-go-v2/service/bedrockruntime with its
// retries and its look at the environment off; [Model.Client] gives its client for calls that are no conversations. Their
// bodies are written here, since the SDK's types lose the order and the large numbers of a JSON Schema. Answers are read
// here too, frames by the SDK's decoder: the SDK takes a stream that breaks off for a good end, keeps no bodies of failures,
// and drops what is newer than itself.
//
// # What is mapped
//
// Streaming, tools and several calls of them in one answer, images, files, audio, JSON by schema and reasoning effort pass
// through; whether a model has them is for Deployment.Has to say. A conversation that ends with an assistant's message is
// sent as it is: set llm.CanPrefill where the model continues it.
//
// A request is mapped so:
//   - System and all messages of the role system are the system text, wherever they stand. Neighbouring messages of one role
//     become one turn, with the results of tools before all else.
//   - Tools, ToolChoice, Format by schema, MaxTokens, Temperature, TopP and Stop have their counterparts; Effort is
//     outputConfig.effort.
//   - The API has no seed, no JSON without a schema and no "none" among its tool choices: Request.Seed is not sent,
//     llm.FormatJSON is refused, and with llm.ToolNone the tools stay out of a request, which fails where the conversation
//     holds calls.
//   - Images, files and audio go by content or by an s3:// address. Results of tools may hold images and files.
//   - Reasoning is sent back with its signature; without any Extra it is another provider's and left out, as blank texts are.
//
// An answer is read so:
//   - text, reasoningContent, toolUse and image are text, reasoning, tool calls and images; citations go with their text.
//   - end_turn and stop_sequence, max_tokens and tool_use are stop reasons; guardrail_intervened and content_filtered are
//     llm.StopFiltered, a refusal; others are llm.StopOther. Malformed output is an llm.BadOutput error, and an answer that
//     filled the model's window an llm.TooLong one.
//   - Usage.Input holds what was read from and written to the cache. The API tells no reasoning tokens.
//   - RequestID is the header X-Amzn-Requestid.
//
// What has no place in this library's vocabulary passes through Extra["bedrock"]. That of a Request is merged into the body:
// guardrailConfig, additionalModelRequestFields, performanceConfig, serviceTier. That of a Part is merged into its content
// block, such as {"document":{"citations":{"enabled":true}}}; a cachePoint in it follows the block as one of its own, and
// one that names another kind of block is that block. A Part of an answer carries there what its block had beyond text and
// call, such as the signature of reasoning, and giving the Part back unchanged gives the API its block back. A block without
// a counterpart is a reasoning Part without text that holds the whole block. Response.Extra has metrics, trace, the usage as
// it came and what else the answer said.
package bedrock
