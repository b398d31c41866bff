// Package gemini speaks to Google's Gemini models: to the Gemini Developer API with a key, and to Vertex AI with a project, a
// location and access tokens.
//
// A [Model] makes exactly one HTTP request a call: it neither retries nor waits, which is what the stages around it are for.
// Whatever goes wrong comes back as an *llm.Error that is already classified and carries what the wire showed: status,
// headers, codes, the start of the body, how far the request got and what had arrived of the answer. Keys are taken out of
// all of it, however short they are down to four bytes; words that stand for no key, such as "none" and "ollama", stay.
//
// Requests are written with the types of google.golang.org/genai, and [Model.Client] gives its client for calls that are no
// chat. Answers and failures are read here, over the same http.Client: the SDK hides the headers of failures, takes a comment
// in a stream for damage, and a stream that ends too early for a good end.
//
// # What is mapped
//
// What a model can do is told by [Capabilities]: streaming, tools and several calls of them in one answer, images, files,
// audio, JSON, JSON by schema and, from Gemini 2.5 on, reasoning effort; not the continuation of an assistant's message. The
// Developer API and Vertex AI differ in address, credentials and the spelling of models, not in this.
//
// A request is mapped so:
//   - System and all messages of the role system are the systemInstruction, wherever they stand. Neighbouring messages of one
//     role become one turn, with the results of tools before all else.
//   - Tools, every ToolChoice, Format, MaxTokens, Temperature, TopP, Stop and Seed have their counterparts. A strict tool makes
//     the calling mode VALIDATED. Effort is a level from Gemini 3 on, before that a budget of tokens, and a number always is one.
//   - Images, files and audio go by Data, or by URL as fileUri. Results of tools may hold them too.
//   - Reasoning is sent back with its thoughtSignature; without one it is another provider's and left out. Calls that another
//     model made get the documented stand-in for a signature from Gemini 3 on.
//
// An answer is read so:
//   - Of the first candidate: text, thoughts, function calls, inline and file data become parts. Calls without an id get one,
//     which is not sent back.
//   - STOP and MAX_TOKENS are stop reasons, and what a filter says (SAFETY, RECITATION, PROHIBITED_CONTENT and others, or a
//     blocked prompt) is llm.StopFiltered, a refusal, with the filter's message as Response.Refusal; others are llm.StopOther.
//     A malformed function call is an llm.BadOutput error.
//   - Usage counts thoughts as Reasoning and within Output, cached content as CachedInput. The API tells no writes to a cache.
//   - RequestID is the answer's responseId, else the header X-Request-Id, X-Goog-Request-Id or Request-Id.
//
// Not handed on: candidates beyond the first. Arguments of calls that are asked for in pieces are refused.
//
// What has no place in this library's vocabulary passes through Extra["gemini"]. That of a Request is merged into the body:
// safetySettings, cachedContent, the tools that Google runs. That of a Part is merged into its part of the body:
// videoMetadata, mediaResolution. A Part of an answer carries there what its part had beyond text, data and call, such as
// its thoughtSignature, and giving the Part back unchanged gives the API its part back. A part without a counterpart, such as
// code that Google ran, is a reasoning Part without text that holds the whole part. Response.Extra has the other fields of the
// answer, such as groundingMetadata, and the usage as it came.
package gemini
