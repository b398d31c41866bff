package gemini

import (
	"encoding/json"

	sdk "google.golang.org/genai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// close ends an answer: a filter that said something in the answer's place has spoken its refusal.
func (a *answer) close() error {
	if a.message == "" || a.stop() != llm.StopFiltered || a.refusal != "" {
		return nil
	}
	a.refusal = a.message
	return a.Tell(&adapter.Told{}, llm.Delta{Kind: llm.DeltaRefusal, Text: a.refusal})
}

// response is the whole answer.
func (a *answer) response() *llm.Response {
	r := a.parts()
	r.Stop = a.stop()
	if len(a.extras) > 0 {
		r.Extra = extraOf(a.extras)
	}
	return r
}

// partial is what a broken answer has of content. nil: nothing.
func (a *answer) partial() *llm.Response {
	if !a.Begun() {
		return nil
	}
	return a.parts()
}

func (a *answer) parts() *llm.Response {
	r := &llm.Response{Model: a.model, Refusal: a.refusal, StopDetail: a.finish}
	adapter.FillIn(&r.StopDetail, a.blocked)
	for _, b := range a.blocks {
		p := llm.Part{Kind: b.kind, Text: b.text.String(), Call: b.call, Data: b.data, URL: b.url, MIME: b.mime}
		if len(b.extra) > 0 {
			p.Extra = extraOf(b.extra)
		}
		r.Parts = append(r.Parts, p)
	}
	return r
}

func extraOf(fields []member) map[string]json.RawMessage {
	var b []byte
	for _, f := range fields {
		if b == nil {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		name, err := wire.Marshal(f.name)
		if err != nil {
			return nil // no string fails
		}
		b = append(append(append(b, name...), ':'), f.value...)
	}
	return map[string]json.RawMessage{extraName: append(b, '}')}
}

func (a *answer) stop() llm.StopReason {
	if a.finish == "" && a.blocked != "" {
		return llm.StopFiltered
	}
	switch sdk.FinishReason(a.finish) {
	case "", sdk.FinishReasonStop:
		if a.calls > 0 {
			return llm.StopToolCalls
		}
		return llm.StopEnd
	case sdk.FinishReasonMaxTokens, sdk.FinishReasonContinuation:
		return llm.StopLength
	case sdk.FinishReasonSafety, sdk.FinishReasonRecitation, sdk.FinishReasonBlocklist, sdk.FinishReasonProhibitedContent,
		sdk.FinishReasonSPII, sdk.FinishReasonImageSafety, sdk.FinishReasonImageProhibitedContent,
		sdk.FinishReasonImageRecitation, "MODEL_ARMOR", "JAILBREAK":
		return llm.StopFiltered
	}
	return llm.StopOther
}

// broken is the class of a finish reason that says that there is no answer, whatever came before it. Unknown: it says no such
// thing.
func broken(finish string) llm.Class {
	switch sdk.FinishReason(finish) {
	case sdk.FinishReasonMalformedFunctionCall, sdk.FinishReasonUnexpectedToolCall, sdk.FinishReasonTooManyToolCalls,
		"MALFORMED_RESPONSE":
		return llm.BadOutput
	case "MISSING_THOUGHT_SIGNATURE":
		return llm.Invalid
	}
	return llm.Unknown
}

// usage is what the API counts. The prompt holds what was cached; thoughts and candidates are counted apart.
type usage struct {
	prompt, tool, cached, candidates, thoughts, total adapter.Count
	told                                              bool
	newest                                            []byte
}

// note takes note of counts, which are totals so far. The first and the newest count: the first may be the only one with the
// prompt's, and those in between, one with every chunk, would be read for nothing.
func (u *usage) note(v []byte) {
	if u.told {
		u.newest = v
		return
	}
	u.told = true
	u.count(v)
}

// count takes in counts. What is 0 or left out does not undo what was told before.
func (u *usage) count(counts []byte) {
	w := walkOf(counts)
	for w.more() {
		var to *adapter.Count
		switch string(w.key) {
		case "promptTokenCount":
			to = &u.prompt
		case "toolUsePromptTokenCount":
			to = &u.tool
		case "cachedContentTokenCount":
			to = &u.cached
		case "candidatesTokenCount":
			to = &u.candidates
		case "thoughtsTokenCount":
			to = &u.thoughts
		case "totalTokenCount":
			to = &u.total
		default:
			continue
		}
		to.Take(w.value())
	}
}

// tokens is the usage as far as it is known; the output that nobody counted is estimated from what came.
func (a *answer) tokens() llm.Usage {
	u := a.usage
	u.count(u.newest)
	candidates := u.candidates.N
	if candidates == 0 { // left out of some chunks, where it can be told from the total
		candidates = max(u.total.N-u.prompt.N-u.tool.N-u.thoughts.N, 0)
	}
	out := llm.Usage{
		Input: u.prompt.N + u.tool.N, CachedInput: u.cached.N, Output: candidates + u.thoughts.N, Reasoning: u.thoughts.N,
		Estimated: u.prompt.Odd || u.tool.Odd || u.cached.Odd || u.candidates.Odd || u.thoughts.Odd,
	}
	if a.out > 0 && out.Output == 0 {
		out.Output, out.Estimated = max((a.out+3)/4, 1), true
	}
	return adapter.WithCached(out)
}
