package classify

import (
	"fmt"

	"github.com/modelchain/llm"
)

// statusRules are what an HTTP status means where nothing said better. They come after all codes and phrases.
func statusRules() []Rule {
	table := []struct {
		class    llm.Class
		statuses []int
		source   string
	}{
		{llm.Invalid, []int{400, 406, 411, 412, 414, 415, 416, 417, 418, 422, 426, 428, 431}, "RFC 9110"},
		{llm.Auth, []int{401, 403, 407, 511}, "RFC 9110"},
		{llm.Refused, []int{451}, "StepFun's filter; the law elsewhere"},
		{llm.Quota, []int{402}, "payment required"},
		{llm.NotFound, []int{300, 301, 302, 303, 304, 305, 307, 308, 404, 405, 410},
			"no such model, path or method here; a redirect leads elsewhere"},
		{llm.Timeout, []int{408, 504, 524, 598, 599}, "524 is Cloudflare's"},
		{llm.TooLong, []int{413}, "bytes or tokens: a smaller request passes"},
		{llm.RateLimited, []int{420, 429}, "RFC 6585"},
		{llm.Overloaded, []int{498, 529}, "Groq; Anthropic"},
		{llm.Unavailable, []int{409, 421, 423, 424, 425, 444, 460, 499, 500, 502, 503, 505, 506, 507, 508, 509, 510,
			520, 521, 522, 523, 525, 526, 527, 530, 533},
			"409 is OpenAI's lock timeout, 424 a model that failed, 499 a proxy that hung up while this caller waits"},
		{llm.Unsupported, []int{501}, "RFC 9110"},
	}
	var rules []Rule
	for _, t := range table {
		for _, s := range t.statuses {
			rules = append(rules, Rule{Name: fmt.Sprintf("status.%d", s), Step: StepStatus, Status: []int{s},
				Class: t.class, Source: t.source})
		}
	}
	return rules
}
