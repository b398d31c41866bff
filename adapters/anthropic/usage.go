package anthropic

import (
	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// usage is what the API counts. Input does not hold what was read from or written to the cache.
type usage struct {
	input, output, read, written, reasoning int
	told, final                             bool
	raw                                     []byte
}

// count takes in counts. Those of a stream's end are totals, and some servers send zeros for what they told before.
func (a *answer) count(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	set := func(to *int, v gjson.Result) {
		if n := v.Int(); v.Type == gjson.Number && n > 0 && n < 1<<40 {
			*to = int(n)
		}
	}
	u.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "input_tokens":
			set(&a.usage.input, v)
		case "output_tokens":
			set(&a.usage.output, v)
		case "cache_read_input_tokens":
			set(&a.usage.read, v)
		case "cache_creation_input_tokens":
			set(&a.usage.written, v)
		case "output_tokens_details":
			set(&a.usage.reasoning, v.Get("thinking_tokens"))
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
		Input: u.input + u.read + u.written, CachedInput: u.read, CacheWrite: u.written, Output: u.output, Reasoning: u.reasoning,
	}
	if a.out > 0 && (!u.told || !u.final) {
		out.Output, out.Estimated = max(u.output, (a.out+3)/4), true
	}
	return out
}
