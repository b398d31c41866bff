package policy

import "reflect"

// meaningOf is what the key of a field of t says, for the schema, the page and errors.
func meaningOf(t reflect.Type, f reflect.StructField) string {
	for _, i := range f.Index[:len(f.Index)-1] { // of what t embeds
		t = t.Field(i).Type
	}
	return meanings[t.Name()+"."+keyOf(f)]
}

// meanings are what keys say, by the type and the key.
var meanings = map[string]string{
	"card.workflow":                 "the name of the workflow",
	"card.max_total_attempts":       "most provider calls for a request: first tries, retries, fallbacks; no such ceiling if absent",
	"card.max_elapsed_ms":           "most time for one request, in milliseconds; 30000 if absent",
	"card.max_tokens":               "most input and output tokens of all attempts for one request; no such ceiling if absent",
	"card.max_incremental_cost_usd": "most US dollars for a request; every route needs a price then; no such ceiling if absent",
	"card.replay_safe_until": "until when a failed call may be sent again: before anything of " +
		"the answer was seen (the default), or only" +
		" as long as the provider cannot have acted on it",
	"card.primary":           "the route that is called first; the first route that is listed if absent",
	"card.allowed_fallbacks": "the routes that may stand in, in order, each for its reasons only",
	"card.long_context": "the route for what does not fit the window of the primary, and for what reactions move to a " +
		"larger one",
	"card.queue_after_ms": "the wait from which on work that time may mend is queued, in " +
		"milliseconds; 0 for any wait; no queue if " +
		"null or absent",
	"card.degrade":        "what stands in where nobody could answer; nothing if absent",
	"card.contract":       "what a stand-in must satisfy, each with an approval for its reasons, and what answers must look like",
	"card.fail_closed_on": "failures that end the call at once: no retry, no fallback, no queue, no stand-in",
	"card.retry":          "repeating a failed call on the same route",
	"card.cooldown":       "resting a route that failed for good",
	"card.timeouts":       "limits on one attempt; 15 seconds in all if none is set",
	"card.stream":         "what is held back of a stream, and what one that broke ends in",
	"card.journal": "how the journal that the program gives is kept: durable before anything goes on, else refused, " +
		"if absent",
	"card.reactions": "what a class of failure leads to, by reason word or class, where that differs from the table",

	"journal.acknowledge": "what a call waits for: all of its rows, the row that an attempt begins, or none",
	"journal.on_failure":  "what happens while the journal cannot be written: no provider is called, or calls go on with an alarm",
	"journal.timeout_ms":  "the longest that one row delays a call, in milliseconds; 1000 if absent",

	"fallback.route":   "the name of a route",
	"fallback.reasons": "the failures that it may stand in for",

	"degrade.last_good": "the last good answer to the same question",
	"degrade.answer":    "a fixed answer; {{wait}} in it becomes the time after which it is worth coming back",
	"degrade.for":       "the failures that a stand-in is given for; all that do not fail closed if absent",

	"lastGood.entries":    "how many answers are kept; 1000 if absent",
	"lastGood.max_age_ms": "how old an answer may be, in milliseconds; an hour if absent",

	"retry.max": "how often a call is repeated on a route; 0 for never; 2 if absent; the last " +
		"attempt is left to a fallback" +
		" in any case",
	"retry.base_ms":     "the first wait, in milliseconds, where the provider asks for none; 1000 if absent",
	"retry.cap_ms":      "the longest such wait, in milliseconds; 20000 if absent",
	"retry.jitter":      "the share by which waits differ at random; 0.5 if absent",
	"retry.max_wait_ms": "the longest wait asked for by a provider that is waited for, in milliseconds; 60000 if absent",

	"cooldown.rest_ms":      "how long a route rests, in milliseconds, unless its provider asks for longer; 60000 if absent",
	"cooldown.cap_ms":       "the longest rest after probes that failed, in milliseconds; 300000 if absent",
	"cooldown.long_ms":      "the rest after failures such as quota, in milliseconds; 900000 if absent",
	"cooldown.max_wait_ms":  "the longest rest that a provider may ask for as a wait, in milliseconds; an hour if absent",
	"cooldown.max_until_ms": "the longest rest that a provider may ask for as a date, in milliseconds; a day if absent",
	"cooldown.patience_ms": "how long failures that were never repeated must go on before a rest " +
		"begins, in milliseconds; 5000 if " +
		"absent",
	"cooldown.probe_lease_ms": "how long a probe keeps other calls away, in milliseconds; 30000 if absent",

	"timeouts.attempt_ms":     "most time for one attempt, in milliseconds",
	"timeouts.first_token_ms": "most time to the first token of a stream, in milliseconds",
	"timeouts.idle_ms":        "longest silence within a stream, in milliseconds",

	"stream.window_deltas":  "how many deltas of a stream are held back",
	"stream.window_bytes":   "how many bytes of a stream are held back",
	"stream.window_wait_ms": "for how long the opening of a stream is held back, in milliseconds",
	"stream.whole":          "whether the whole answer is held back",
	"stream.on_interrupt": "what a stream that broke after something was seen ends in: the error " +
		"(the default), a notice to the " +
		"reader and the error, or a continuation on a route with the capability prefill, the primary last",
	"stream.notice": "the notice, with on_interrupt: notice",

	"reaction.again":     "whether it is repeated on the same route",
	"reaction.elsewhere": "where it may move: nowhere, to a route that names the reason, to a larger window, anywhere",
	"reaction.cools":     "what it rests",
	"reaction.long":      "whether the rest is cooldown.long_ms",
	"reaction.waits":     "whether time may mend it, so that work can be queued",
	"reaction.closed":    "whether the caller has to hear of it: no queue and no stand-in",

	"route.provider":     "whose API it is: openai, azure and the others of package openai, or one that the program brings",
	"route.api":          "which of OpenAI's two APIs is spoken; chat if absent",
	"route.model":        "the model, as its provider names it",
	"route.base_url":     "the root of the API, what comes before /chat/completions; the provider's own if absent",
	"route.key":          "where the key is: {env: NAME} or {file: PATH}; no key is sent if absent",
	"route.api_version":  "Azure's dated API, such as 2024-10-21",
	"route.key_header":   "the header that carries the key; the provider's own if absent",
	"route.organization": "OpenAI's organization",
	"route.project":      "OpenAI's project",
	"route.settings":     "what a provider that the program brings wants to know beside, such as region",
	"route.window":       "what fits into the model, input and output together, in tokens; unknown if absent",
	"route.max_output":   "the longest answer, in tokens; unknown if absent",
	"route.price":        "what it costs; unknown if absent",
	"route.capabilities": "what the model can do; unknown and not checked if absent",
	"route.quota":        "a name that routes with the same rate limits share",
	"route.credential":   "a name that routes with the same account share",
	"route.declares":     "what the route is and what it passed, for the contracts of workflows",
	"route.approvals":    "the approvals to stand in: workflow, reasons, by and until of each",

	"price.input":        "US dollars for a million tokens of input; needed unless free",
	"price.output":       "US dollars for a million tokens of output; needed unless free",
	"price.cached_input": "US dollars for a million tokens of input from the provider's cache; as input if absent",
	"price.cache_write":  "US dollars for a million tokens of input written to it; as input if absent",
	"price.free":         "whether it costs nothing",

	"key.env":  "the name of an environment variable",
	"key.file": "the path of a file, from the directory of this one",

	"common.routes": "the deployments, by name",

	"listedRoute.name": "the name of the route",
}
