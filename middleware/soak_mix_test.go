package middleware_test

import (
	"time"

	"github.com/modelchain/llm"
)

// soakFault is a way in which providers fail.
type soakFault struct {
	class  llm.Class
	weight int
	// What providers ask to wait, each as likely as the others. 0: nothing.
	waits []time.Duration
	until bool // a wait that leads to a date
	late  bool // it may come after a part of the answer
}

// soakMix is the mix of failures outside outages. The weights are how many different forms of each are known of real
// providers, from their documents and from what was seen of them; how often each occurs nobody publishes.
var soakMix = []soakFault{
	{class: llm.RateLimited, weight: 36, waits: []time.Duration{
		0, 0, 0, 0, 0, 0, 0, 540 * time.Millisecond, 750 * time.Millisecond, 1250 * time.Millisecond, 1500 * time.Millisecond,
		2 * time.Second, 3 * time.Second, 5 * time.Second, 9 * time.Second, 16 * time.Second, 20 * time.Second, 30 * time.Second,
		33 * time.Second, 40 * time.Second, 56 * time.Second, 86 * time.Second,
	}},
	{class: llm.Unavailable, weight: 26, late: true},
	{class: llm.TooLong, weight: 26},
	{class: llm.Quota, weight: 20},
	{class: llm.Quota, weight: 3, waits: []time.Duration{40 * time.Second, 19 * time.Hour, 24 * time.Hour}, until: true},
	{class: llm.Auth, weight: 17},
	{class: llm.BadOutput, weight: 13, late: true},
	{class: llm.Invalid, weight: 12},
	{class: llm.Interrupted, weight: 12, late: true},
	{class: llm.Refused, weight: 11, late: true},
	{class: llm.Overloaded, weight: 10, waits: []time.Duration{0, 0, 0, 9 * time.Second}, late: true},
	{class: llm.NotFound, weight: 9},
	{class: llm.Timeout, weight: 4},
	{class: llm.Unsupported, weight: 4},
	{class: llm.Canceled, weight: 3},
	{class: llm.Unknown, weight: 2},
}

// soakOutages is what the calls of an outage fail with. One whose class is Stalled is silent.
var soakOutages = []soakFault{
	{class: llm.Unavailable, weight: 5},
	{class: llm.Overloaded, weight: 3, waits: []time.Duration{0, 0, 5 * time.Second}},
	{class: llm.Stalled, weight: 2},
	{class: llm.RateLimited, weight: 2, waits: []time.Duration{time.Second, 20 * time.Second}},
	{class: llm.Timeout, weight: 1},
	{class: llm.Quota, weight: 1},
}

// fault draws one of a mix, by weight.
func (d dice) fault(mix []soakFault) *soakFault {
	all := 0
	for i := range mix {
		all += mix[i].weight
	}
	at := d.rnd.IntN(all)
	for i := range mix {
		if at -= mix[i].weight; at < 0 {
			return &mix[i]
		}
	}
	panic("weights are not negative")
}

// error is what a model says that fails so.
func (d dice) error(f *soakFault) *llm.Error {
	e := &llm.Error{Class: f.class, Evidence: llm.Evidence{Phase: llm.PhaseHeaders}}
	if f.class == llm.Canceled {
		e.Evidence.Status = 499 // the provider's own word, not the caller's
	}
	if len(f.waits) > 0 {
		e.RetryAfter, e.CoolUntil = f.waits[d.rnd.IntN(len(f.waits))], f.until
	}
	return e
}
