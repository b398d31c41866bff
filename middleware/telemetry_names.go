package middleware

import (
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/modelchain/llm"
)

// The GenAI names are constants of ours: the Go package of the conventions had them up to v1.41 and dropped them when they
// moved to a repository of their own.
const (
	scopeName = "github.com/modelchain/llm/middleware"
	// schemaURL is of the conventions whose names are the default. The newer ones have no released schema yet.
	schemaURL = "https://opentelemetry.io/schemas/1.41.0"

	stabilityEnv = "OTEL_SEMCONV_STABILITY_OPT_IN"
	stabilityNew = "gen_ai_latest_experimental"

	operationChat   = "chat"
	providerUnknown = "unknown"
)

// Attributes of the attempt, by the GenAI conventions v1.41.
const (
	keyErrorType = attribute.Key("error.type")

	keyOperation = attribute.Key("gen_ai.operation.name")
	keyProvider  = attribute.Key("gen_ai.provider.name")

	keyRequestModel  = attribute.Key("gen_ai.request.model")
	keyMaxTokens     = attribute.Key("gen_ai.request.max_tokens")
	keyTemperature   = attribute.Key("gen_ai.request.temperature")
	keyTopP          = attribute.Key("gen_ai.request.top_p")
	keyStopSequences = attribute.Key("gen_ai.request.stop_sequences")
	keySeed          = attribute.Key("gen_ai.request.seed")
	keyStream        = attribute.Key("gen_ai.request.stream")
	keyOutputType    = attribute.Key("gen_ai.output.type")

	keyResponseID    = attribute.Key("gen_ai.response.id")
	keyResponseModel = attribute.Key("gen_ai.response.model")
	keyFinishReasons = attribute.Key("gen_ai.response.finish_reasons")
	keyFirstChunk    = attribute.Key("gen_ai.response.time_to_first_chunk")

	keyInputTokens     = attribute.Key("gen_ai.usage.input_tokens")
	keyOutputTokens    = attribute.Key("gen_ai.usage.output_tokens")
	keyCacheRead       = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	keyReasoningTokens = attribute.Key("gen_ai.usage.reasoning.output_tokens")

	keyTokenType     = attribute.Key("gen_ai.token.type")
	keyTokenModality = attribute.Key("gen_ai.token.modality")

	keyInputMessages  = attribute.Key("gen_ai.input.messages")
	keyOutputMessages = attribute.Key("gen_ai.output.messages")
	keySystem         = attribute.Key("gen_ai.system_instructions")
	keyTools          = attribute.Key("gen_ai.tool.definitions")
)

// Attributes of ours. Those of the call say what the application asked for and got, those of the attempt how it was served.
const (
	keyRoute      = attribute.Key("llm.route")
	keyDeployment = attribute.Key("llm.deployment")
	keyLabel      = "llm.label." // followed by the label's name

	keyOutcome     = attribute.Key("llm.call.outcome")
	keyAttempts    = attribute.Key("llm.call.attempts")
	keyWaited      = attribute.Key("llm.call.waited")
	keyAskedModel  = attribute.Key("llm.call.model")
	keyServedBy    = attribute.Key("llm.call.served_by")
	keyServedModel = attribute.Key("llm.call.served_model")
	keyRefused     = attribute.Key("llm.call.refused")
	keyPartial     = attribute.Key("llm.call.partial")
	keyContinued   = attribute.Key("llm.call.continued")

	keyAttempt        = attribute.Key("llm.attempt")
	keyAttemptRetries = attribute.Key("llm.attempt.retries")
	keyAttemptReason  = attribute.Key("llm.attempt.reason")
	keyAttemptFrom    = attribute.Key("llm.attempt.from")
	keyAttemptAfter   = attribute.Key("llm.attempt.after")
	keyAttemptWait    = attribute.Key("llm.attempt.wait")
	keyAttemptStatus  = attribute.Key("llm.attempt.status")
	keyAttemptCost    = attribute.Key("llm.attempt.cost_usd")
	keyAttemptSkipped = attribute.Key("llm.attempt.skipped")
	keyEstimated      = attribute.Key("llm.attempt.usage_estimated")

	keyFrom   = attribute.Key("llm.fallback.from")
	keyTo     = attribute.Key("llm.fallback.to")
	keyReason = attribute.Key("llm.reason")
	keyDetail = attribute.Key("llm.detail")
)

// Events on the span of the call.
const (
	eventSkipped = "llm.deployment.skipped"
	eventDenied  = "llm.retry.denied"
)

// conventions are the names that the newer conventions changed.
type conventions struct {
	latest                            bool
	cacheWrite                        attribute.Key
	attemptDuration, timeToFirstChunk string
	tokenUsage                        string // a histogram of both directions; "": the newer counters
	schemaURL                         string
}

func conventionsFor(operation string) conventions {
	n := conventions{
		cacheWrite:       "gen_ai.usage.cache_creation.input_tokens",
		attemptDuration:  "gen_ai.client.operation.duration",
		timeToFirstChunk: "gen_ai.client.operation.time_to_first_chunk",
		tokenUsage:       "gen_ai.client.token.usage",
		schemaURL:        schemaURL,
	}
	if !optedIn(os.Getenv(stabilityEnv)) {
		return n
	}
	n.latest, n.schemaURL = true, ""
	n.cacheWrite = "gen_ai.usage.cache_write.input_tokens"
	switch operation {
	case operationChat, "generate_content", "text_completion": // what the newer conventions call inference
		n.attemptDuration = "gen_ai.client.inference.duration"
		n.timeToFirstChunk = "gen_ai.client.inference.time_to_first_chunk"
		n.tokenUsage = ""
	}
	return n
}

func optedIn(list string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(item) == stabilityNew {
			return true
		}
	}
	return false
}

// Bucket boundaries. Those of the GenAI metrics are the conventions'; a view can add to them. The call's go on to where
// reasoning models and waits take it.
func secondsBuckets() []float64 {
	return []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
}

func callBuckets() []float64 { return append(secondsBuckets(), 163.84, 327.68, 655.36) }

func tokenBuckets() []float64 {
	return []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
}

func attemptBuckets() []float64 { return []float64{1, 2, 3, 4, 5} }

func waitBuckets() []float64 { return []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 60} }

// errorType is c as error.type: the class's own name, so that spans, metrics, logs and accounts say the same word, and
// "_OTHER" for what is not known, as the conventions want it.
func errorType(c llm.Class) string {
	if c == llm.Unknown || int(c) >= llm.NumClasses {
		return "_OTHER"
	}
	return c.String()
}

// finishReason is why an answer ended in the provider's words, or else in those of the conventions.
func finishReason(resp *llm.Response) string {
	if resp.StopDetail != "" {
		return resp.StopDetail
	}
	switch resp.Stop {
	case llm.StopEnd:
		return "stop"
	case "":
		return string(llm.StopOther)
	}
	return string(resp.Stop)
}

// finishError stands for an answer whose end never came.
const finishError = "error"
