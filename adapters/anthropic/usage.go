package anthropic

import (
	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// usage is what the API counts. Input does not hold what was read from or written to the cache.
type usage struct {
	input, output, read, written, reasoning adapter.Count
	told, final                             bool
	raw                                     []byte
}

// count takes in counts. Those of a stream's end are totals, and some servers send zeros for what they told before.
func (a *answer) count(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	u.ForEach(func(k, v gjson.Result) bool {
		var to *adapter.Count
		switch k.Str {
		case "input_tokens":
			to = &a.usage.input
		case "output_tokens":
			to = &a.usage.output
		case "cache_read_input_tokens":
			to = &a.usage.read
		case "cache_creation_input_tokens":
			to = &a.usage.written
		case "output_tokens_details":
			if v = v.Get("thinking_tokens"); v.Exists() {
				to = &a.usage.reasoning
			}
		}
		if to != nil {
			to.Take([]byte(v.Raw))
		}
		return true
	})
	a.usage.told = true
	if a.usage.raw == nil {
		a.usage.raw = []byte(u.Raw)
	} else {
		a.usage.raw = wire.Merge(a.usage.raw, []byte(u.Raw))
	}
}

// tokens is the usage as far as it is known. The API tells the output at the end; of an answer that did not get there it is
// estimated from what came.
func (a *answer) tokens() llm.Usage {
	u := &a.usage
	out := llm.Usage{
		Input: u.input.N + u.read.N + u.written.N, CachedInput: u.read.N, CacheWrite: u.written.N, Output: u.output.N,
		Reasoning: u.reasoning.N, Estimated: u.input.Odd || u.output.Odd || u.read.Odd || u.written.Odd || u.reasoning.Odd,
	}
	if a.out > 0 && (!u.told || !u.final || u.output.Odd && u.output.N == 0) {
		out.Output, out.Estimated = max(u.output.N, (a.out+3)/4), true
	}
	return out
}
