// Package tokens counts the input tokens of requests, so that what does not fit a model's window is known before the
// call. A [Counter] serves a [llm.Deployment] and a token router.
//
// # What it costs
//
// An encoding makes at most one token of a byte. A request whose bytes fit the limit is therefore never tokenized: its
// lengths are added up, half a microsecond for a hundred messages, without an allocation. Else it is tokenized until the
// count is over the limit or what is left cannot bring it over.
//
// Vocabularies are embedded, read when first needed (a third of a second, once; see [Counter.Load]) and shared by all
// Counters; nothing is downloaded. Counts are those of tiktoken, which the tests hold them against, but the work grows as
// the length of the text whatever it is: a megabyte of one letter takes milliseconds, the worst of random letters a tenth
// of a second or two.
//
// # What is exact
//
// The text of messages for models of OpenAI's, in the chat format. A byte that is not UTF-8 counts as the U+FFFD that it
// becomes in JSON.
//
// # What is estimated, from above
//
//   - Models with other tokenizers: texts count by cl100k_base, with each digit by itself for most, times a factor of the
//     family, piece by piece, but no piece as more than its bytes. The factors: Claude 2 and up to 4.6 1.5; later Claude 2;
//     Gemini, DeepSeek, Qwen, Grok 1.25; Llama 1.1; Mistral 1.5; Llama 2, Mixtral 2; a model that is not known 1.5.
//   - Tools, tool calls and results, schemas: their JSON and names as text, 16 tokens each and 16 for having tools (24 and
//     64 for other families, 750 for the system prompt that Anthropic adds).
//   - Images: from their size where PNG, JPEG or GIF data tell it, by patches of 27 pixels and the family's bounds; else the
//     family's largest: 2,880 for most of OpenAI's models, 48,169 for gpt-4o-mini, 16,384 for the latest, 4,800 for Claude,
//     6,200 for Gemini. A full-HD image is never below 2,880.
//   - Files: texts as text; a PDF 4,600 a page; where pages cannot be counted a page for each 2,000 bytes, at most 20; 20
//     pages for a file that is elsewhere.
//   - Audio: 32 tokens a second at 16 kilobits a second, or 8,000 bytes a second for WAV and PCM; 19,200 (ten minutes) where
//     it is elsewhere.
//   - Reasoning and what Extra holds: as text.
//
// [Config] overrides each of them, and [Counter.Learn] corrects a Counter whose estimates turn out too low.
package tokens
