// Package openai speaks to OpenAI and to everything that speaks like it: Azure, Groq, DeepSeek, Mistral, OpenRouter, vLLM,
// Ollama and any other server with a /chat/completions, for which a [Model] is, or a /responses, for which [Responses] is.
//
// Both make exactly one HTTP request a call: they neither retry nor wait, which is what the stages around them are for.
// Whatever goes wrong comes back as an *llm.Error that is already classified and carries what the wire showed: status,
// headers, codes, the start of the body, how far the request got and what had arrived of the answer. Keys are taken out of
// all of it, however short they are down to four bytes; words that stand for no key, such as "none" and "ollama", stay.
//
// Chats are written as github.com/sashabaranov/go-openai has them, and [Model.Client] gives its client for other calls. Answers
// and failures of chats are read here, over the same http.Client: that client drops headers, unknown fields and several
// kinds of errors in streams.
//
// # What a chat can do
//
// Streaming, tools and several calls of them in one answer, images, files, audio, JSON, JSON by schema and reasoning effort
// pass through a [Model]; whether a server has them is for Deployment.Has to say. A conversation that ends with an
// assistant's message is sent as it is: set llm.CanPrefill where the server continues it.
//
// A request is mapped so:
//   - System is the first message, of the role system. Other messages of that role stay in their places.
//   - Tools, every ToolChoice, Format, Temperature, TopP, Stop and Seed have their counterparts; Effort is reasoning_effort,
//     and MaxTokens goes into the field of Config.MaxTokensField.
//   - Images go by Data or URL, audio by Data, files by Data or, once uploaded, by their id as URL ("file-…"); OpenRouter takes
//     files by any URL.
//   - Results of tools are text here: others are refused with llm.Unsupported. "Error: " goes before one with IsError.
//   - Reasoning is sent back in Config.ReasoningField with the tool calls that it led to, else left out.
//   - Extra["openai"], and Extra by the provider's own name, are merged into the body; those of a part into its part.
//
// An answer is read so:
//   - Of the first choice: content is one text part; reasoning_content, reasoning and thinking parts are one reasoning part;
//     refusal is Response.Refusal; tool_calls and function_call are tool calls, with ids of the adapter's where the server
//     sends none. Parts stand in the order in which they began.
//   - The finish reasons stop, length, tool_calls and content_filter, and other servers' words for them, are stop reasons; an
//     answer with tool calls or a refusal stops with that, whatever the word. The word itself is Response.StopDetail. One that
//     says that the answer is not whole, such as error or abort, is an error.
//   - Response.Extra has, under the provider's name, the other fields of the answer, such as system_fingerprint.
//   - Streams are asked for their usage with stream_options.
//
// Of both APIs: Usage has cached, cache-written and reasoning tokens, and is estimated of a stream that breaks. RequestID is
// the header X-Request-Id, Request-Id, Apim-Request-Id or X-Ms-Request-Id, else the answer's id.
//
// Not handed on: choices beyond the first, and of the first its log probabilities, annotations, images and audio.
//
// # The providers that are known
//
// Config.Provider fills in an address and habits:
//   - "azure" needs BaseURL and sends the key in Api-Key. It speaks the v1 API, or with Config.APIVersion the dated one.
//   - "groq" and "cerebras" take max_completion_tokens, the others but OpenAI and Azure max_tokens.
//   - "deepseek" gets reasoning back as reasoning_content, "openrouter" as reasoning.
//   - "mistral" takes random_seed, no stream_options, and ids of tool calls of nine letters and digits, into which others are
//     translated.
//   - "xai", "together", "fireworks", and on this machine "ollama", "vllm", "llama.cpp" and "lmstudio" have no more than an
//     address.
//
// Any other name needs BaseURL and has OpenAI's habits.
package openai
