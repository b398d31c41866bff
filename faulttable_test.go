package llm_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

const (
	answerTakes = words * perWord
	// What two waits before a retry take at least and at most: 1 s and 2 s, more or less by half.
	leastWaits, mostWaits = 1500 * time.Millisecond, 4500 * time.Millisecond
	firstToken, idle      = 8 * time.Second, 8 * time.Second
)

var whole = middleware.CommitConfig{Whole: true}

func faults() []fault {
	return slices.Concat(refusals(), silences(), breaks(), verdicts(), []fault{outage(time.Minute, 20, 12)})
}

// refusals are failures before an answer begins.
func refusals() []fault {
	limited := refuses(http.StatusTooManyRequests, "Rate limit reached", "rate_limit_exceeded")
	return []fault{
		{name: "1 429 with Retry-After 2, then fine", primary: first(1, func(x exchange) llmtest.Turn {
			return llmtest.Turn{Do: llmtest.DoRateLimited, RetryAfter: x.by.pace.of(2 * time.Second)}
		}), check: func(r *trial, h heard) {
			r.served(h, "primary")
			r.account(h, 2, 0)
			if log := r.primary.seen(); len(log) == 2 {
				r.within(h, "the gap", log[1].at-log[0].at, 1800*time.Millisecond, 2200*time.Millisecond)
			}
			r.within(h, "the call", h.took, 2*time.Second, 2200*time.Millisecond+answerTakes)
		}},
		{name: "2 429 for ever without a hint", primary: limited, check: func(r *trial, h heard) {
			r.served(h, "fallback")
			r.account(h, 3, 1)
			var at []time.Duration
			for _, l := range slices.Concat(r.primary.seen(), r.fallback.seen()) {
				at = append(at, l.at)
			}
			slices.Sort(at)
			r.expect(len(at) <= 6, h, "at most 6 attempts in all")
			for i := 4; i < len(at); i++ {
				r.expect(at[i]-at[i-4] > 3*time.Second, h, "no more than 4 attempts in 3 s")
			}
			r.within(h, "the call", h.took, leastWaits+answerTakes, mostWaits+answerTakes)
		}},
		{name: "3 500 once", primary: first(1, refuses(http.StatusInternalServerError, "oops", "")), check: func(r *trial, h heard) {
			r.served(h, "primary")
			r.account(h, 2, 0)
			r.within(h, "the call", h.took, leastWaits/3+answerTakes, mostWaits/3+answerTakes)
		}},
		{name: "4 503 for ever", primary: refuses(http.StatusServiceUnavailable, "down", ""), check: func(r *trial, h heard) {
			r.served(h, "fallback")
			r.account(h, 3, 1)
			r.within(h, "the call", h.took, leastWaits+answerTakes, mostWaits+answerTakes)
		}},
		{name: "5 TCP reset before headers once", primary: first(1, func(exchange) llmtest.Turn { return llmtest.Turn{Do: llmtest.DoReset} }), check: func(r *trial, h heard) {
			r.served(h, "primary")
			r.account(h, 2, 0)
			if rows := h.rows(); len(rows) > 0 {
				r.expect(rows[0].Class == llm.Unavailable, h, "the reset to be Unavailable, it is %v: %v", rows[0].Class, rows[0].Err)
			}
			r.within(h, "the call", h.took, leastWaits/3+answerTakes, mostWaits/3+answerTakes)
		}},
	}
}

// silences are providers that keep their connection open and say nothing.
func silences() []fault {
	stalled := func(r *trial, h heard, phase string) {
		rows := h.rows()
		r.expect(len(rows) > 0 && rows[0].Class == llm.Stalled && strings.Contains(rows[0].Err.Error(), phase), h,
			"the first attempt to be Stalled with %q, the account has %+v", phase, rows)
	}
	rescued := func(limit time.Duration) func(*trial, heard) {
		return func(r *trial, h heard) {
			r.served(h, "fallback")
			r.account(h, 1, 1)
			stalled(r, h, "no first token within")
			r.within(h, "the call", h.took, limit+answerTakes, limit+answerTakes)
			r.within(h, "the rescue", h.took, 0, 15*time.Second)
			r.left(h)
		}
	}
	silent := breaking(llmtest.DoStall, 20, 30*time.Second)
	const (
		begun = 20 * perWord
		late  = idle / 20 // as AttemptTimeoutConfig.Idle says
	)
	return []fault{
		{name: "6 accepts and never answers", primary: breaking(llmtest.DoSilence, 0, 2*time.Minute), check: rescued(firstToken)},
		{name: "7 headers at once, the first token after 20 s", primary: func(x exchange) llmtest.Turn {
			t := isWell(x)
			t.First.Fixed = x.by.pace.of(20 * time.Second)
			return t
		}, check: rescued(firstToken)},
		{name: "9 silent after 20 tokens for 30 s", primary: silent, check: func(r *trial, h heard) {
			r.served(h, "fallback")
			r.account(h, 1, 1)
			stalled(r, h, "silent for")
			r.continued(h, 20)
			r.within(h, "the call", h.took, idle+answerTakes, idle+late+answerTakes)
			r.left(h)
		}},
		{name: "9 silent after 20 tokens for 30 s, held back whole", primary: silent, window: whole, check: func(r *trial, h heard) {
			r.served(h, "fallback")
			r.account(h, 1, 1)
			stalled(r, h, "silent for")
			r.expect(h.resp != nil && !h.resp.Continued && from(h.text, "primary") == 0, h, "one answer from its beginning")
			r.within(h, "the call", h.took, begun+idle+answerTakes, begun+idle+late+answerTakes)
			r.left(h)
		}},
	}
}

// left checks that the primary's one connection was closed on it when it was given up.
func (r *trial) left(h heard) {
	r.t.Helper()
	deadline := time.Now().Add(r.pace.of(r.pace.slack))
	for {
		log := r.primary.seen()
		if len(log) > 0 && log[0].HungUp || !time.Now().Before(deadline) {
			r.expect(len(log) > 0 && log[0].HungUp, h, "the connection of the stalled attempt to be closed")
			return
		}
		<-time.NewTimer(time.Millisecond).C
	}
}

// continued checks that the answer began with so many words of the primary and went on with the fallback's.
func (r *trial) continued(h heard, at int) {
	r.t.Helper()
	r.expect(h.resp != nil && h.resp.Continued && from(h.text, "primary") == at && from(h.text, "fallback") == words-at, h,
		"the primary's %d words continued by the fallback", at)
	log := r.fallback.seen()
	n := len(log) - 1
	r.expect(n >= 0 && log[n].prefix != "" && strings.HasPrefix(h.text, log[n].prefix) && len(strings.Fields(log[n].prefix)) == at, h,
		"the fallback to be given exactly the text so far")
}

// breaks are streams that go wrong.
func breaks() []fault {
	dies := breaking(llmtest.DoResetBody, 40, 0)
	finished := func(r *trial, h heard) {
		r.served(h, "primary")
		r.account(h, 1, 0)
		r.expect(h.resp != nil && h.resp.Usage == llm.Usage{Input: inputOf("primary"), Output: words}, h, "the provider's usage")
		r.within(h, "the call", h.took, answerTakes, answerTakes+r.pace.full(50*time.Millisecond))
	}
	const cut = 40 * perWord
	return []fault{
		{name: "8 the stream dies after 40 of 60 tokens", primary: dies, check: func(r *trial, h heard) {
			r.served(h, "fallback")
			r.account(h, 1, 1)
			r.continued(h, 40)
			r.within(h, "the call", h.took, answerTakes, answerTakes)
		}},
		{name: "8 the stream ends in order after 40 of 60 tokens", primary: breaking(llmtest.DoCut, 40, 0), check: func(r *trial, h heard) {
			r.served(h, "fallback")
			r.account(h, 1, 1)
			r.continued(h, 40)
		}},
		{name: "8 the stream dies after 40 of 60 tokens, held back whole", primary: dies, window: whole, check: func(r *trial, h heard) {
			r.served(h, "fallback")
			r.account(h, 3, 1)
			r.expect(h.resp != nil && !h.resp.Continued && from(h.text, "primary") == 0, h, "one answer from its beginning")
			r.within(h, "the call", h.took, 3*cut+leastWaits+answerTakes, 3*cut+mostWaits+answerTakes)
		}},
		{name: "8 the stream dies once, held back whole", primary: first(1, dies), window: whole, check: func(r *trial, h heard) {
			r.served(h, "primary")
			r.account(h, 2, 0)
			r.within(h, "the call", h.took, cut+leastWaits/3+answerTakes, cut+mostWaits/3+answerTakes)
		}},
		{name: "10 the tenth event is invalid JSON, the rest fine", primary: breaking(llmtest.DoMalformed, 9, 0), calls: func(r *trial) {
			h := r.call(r.t.Context())
			r.sane(h)
			r.served(h, "fallback")
			r.account(h, 3, 1)
			again := r.call(r.t.Context())
			r.sane(again)
			r.served(again, "fallback")
			r.expect(len(r.primary.seen()) == 3, again, "the next call to be answered while the primary rests")
		}},
		{name: "11 a complete stream without [DONE]", noDone: true, check: finished},
		{name: "11 a complete stream without [DONE] that stays open", noDone: true, open: 2 * time.Minute, check: finished},
	}
}

// verdicts are requests that were refused for what they are, and the account of an answer.
func verdicts() []fault {
	const refusal = "This model cannot continue an assistant message"
	refused := refuses(http.StatusBadRequest, refusal, "invalid_request_error")
	return []fault{
		{
			name:    "12 400 context_length_exceeded",
			primary: refuses(http.StatusBadRequest, "This model's maximum context length is 8000 tokens", "context_length_exceeded"),
			check: func(r *trial, h heard) {
				r.served(h, "fallback")
				r.account(h, 1, 1)
				r.within(h, "the call", h.took, answerTakes, answerTakes)
			},
		},
		{
			name:    "13 400 content_policy_violation",
			primary: refuses(http.StatusBadRequest, "Your request was rejected by our safety system", "content_policy_violation"),
			check: func(r *trial, h heard) {
				r.account(h, 1, 0)
				e := llm.AsError(h.err)
				r.expect(h.err != nil && e.Class == llm.Refused && e.Deployment == "primary" && e.Evidence.Code == "content_policy_violation" &&
					strings.Contains(h.err.Error(), "rejected by our safety system"), h, "the reason of the refusal")
				r.within(h, "the call", h.took, 0, 0)
			},
		},
		{
			name:    "14 the stream is cut and the fallback rejects the prefix",
			primary: breaking(llmtest.DoResetBody, 40, 0),
			fallback: func(x exchange) llmtest.Turn {
				if x.prefix != "" {
					return refused(x)
				}
				return isWell(x)
			},
			check: func(r *trial, h heard) {
				r.account(h, 1, 1)
				e := llm.AsError(h.err)
				r.expect(h.err != nil && e.Class == llm.Interrupted && e.Deployment == "primary", h, "the break to be the error")
				r.expect(from(h.text, "primary") == 40 && from(h.text, "fallback") == 0, h, "the primary's 40 words and no more")
				r.expect(h.err != nil && !strings.Contains(h.err.Error(), refusal) && e.Evidence.Status != http.StatusBadRequest &&
					!errors.Is(h.err, llm.Invalid), h, "an error without the fallback's 400")
			},
		},
		{
			name: "16 the fallback's account", primary: refuses(http.StatusInternalServerError, "oops", ""),
			check: func(r *trial, h heard) {
				r.served(h, "fallback")
				r.account(h, 3, 1)
				if h.err != nil {
					return
				}
				used := llm.Usage{Input: inputOf("fallback"), Output: words}
				r.expect(h.resp.Model == "fallback-wire" && h.resp.Usage == used, h, "model and usage of the fallback, not %s, %+v",
					h.resp.Model, h.resp.Usage)
				for _, a := range h.rows() {
					if a.Deployment == "primary" {
						r.expect(a.Usage == llm.Usage{} && a.CostUSD == 0, h, "nothing billed for a failed attempt, not %+v, %v", a.Usage, a.CostUSD)
						continue
					}
					cost, _ := llm.Price{Input: 1, Output: 2}.Cost(used)
					r.expect(a.Usage == used && a.CostUSD == cost, h, "the fallback's attempt to be billed %v, not %v", cost, a.CostUSD)
				}
			},
		},
	}
}
