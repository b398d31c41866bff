package llmtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest/internal/wire"
)

// A problem is a mistake in a configuration: where, what, and how to mend it.
type problem struct {
	path, what, mend string
}

func (p *problem) Error() string { return p.path + ": " + p.what + "; " + p.mend }

// checker finds the first problem.
type checker struct{ found *problem }

func (c *checker) is(ok bool, path, mend, what string, args ...any) {
	if !ok && c.found == nil {
		c.found = &problem{path, fmt.Sprintf(what, args...), mend}
	}
}

// check finds what cannot be meant.
func (cfg *ProviderConfig) check() *problem {
	c := &checker{}
	for i := range cfg.Routes {
		c.route(fmt.Sprintf("routes[%d]", i), &cfg.Routes[i])
	}
	return c.found
}

func (c *checker) route(path string, r *Route) {
	known := r.API == "" || slices.Contains(wire.APIs(), wire.API(r.API))
	c.is(known, path+".api", "write "+anyOf(wire.APIs()), "there is no API %q", r.API)
	c.is(r.Func == nil || r.Turns == nil, path+".turns", "leave out one of them", "there are Turns beside a Func")
	for i := range r.Turns {
		c.turn(fmt.Sprintf("%s.turns[%d]", path, i), &r.Turns[i])
	}
	for i := range r.Outages {
		o, at := &r.Outages[i], fmt.Sprintf("%s.outages[%d]", path, i)
		c.time(at+".from", o.From)
		c.is(o.To == 0 || o.To > o.From, at+".to", "let it end after it begins, or leave it out", "the outage ends before it begins")
		c.turn(at+".turn", &o.Turn)
	}
	c.count(path+".quota.requests", r.Quota.Requests)
	c.count(path+".quota.tokens", r.Quota.Tokens)
	c.time(path+".quota.per", r.Quota.Per)
	c.act(path+".quota.then", r.Quota.Then)
	c.latency(path+".wait", r.Wait)
}

func (c *checker) turn(path string, t *Turn) {
	c.act(path+".do", t.Do)
	c.is(t.Error == "" || slices.Contains(wire.Failures(), wire.Failure(t.Error)), path+".error", "write "+anyOf(wire.Failures()),
		"%q is no failure that a stream can end in", t.Error)
	c.count(path+".times", t.Times)
	c.is(t.Weight >= 0, path+".weight", "write 0 or more", "%v is below zero", t.Weight)
	for i := range t.OneOf {
		c.turn(fmt.Sprintf("%s.one_of[%d]", path, i), &t.OneOf[i])
	}
	for i, call := range t.Calls {
		c.is(json.Valid(call.Arguments), fmt.Sprintf("%s.calls[%d].arguments", path, i), `write a JSON object, such as {"city":"Oslo"}`,
			"the arguments are no JSON: %q", call.Arguments)
	}
	stops := []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopToolCalls, llm.StopRefusal, llm.StopFiltered}
	c.is(t.Stop == "" || slices.Contains(stops, t.Stop), path+".stop", "write "+anyOf(stops), "no answer ends by %q", t.Stop)
	c.latency(path+".wait", t.Wait)
	c.latency(path+".first", t.First)
	c.latency(path+".gap", t.Gap)
	c.count(path+".at", t.At)
	c.time(path+".hold", t.Hold)
	c.time(path+".retry_after", t.RetryAfter)
	final := t.Status == 0 || t.Status >= 200 && t.Status <= 599
	c.is(final, path+".status", "write 200 to 599", "%d is no status of an answer", t.Status)
	c.is(t.Body == "" || t.Do == DoRaw || t.fails(), path+".body", "write text, or the act raw",
		"only raw and the failures take a body, and this is %q", t.act())
}

func (c *checker) latency(path string, l Latency) {
	c.time(path+".fixed", l.Fixed)
	c.time(path+".min", l.Min)
	c.is(l.Max == 0 || l.Max >= l.Min, path+".max", "let it be min or more", "max is below min")
	c.time(path+".median", l.Median)
	c.is(l.Sigma >= 0, path+".sigma", "write 0 or more", "%v is below zero", l.Sigma)
	c.is(l.Sigma == 0 || l.Median > 0, path+".sigma", "give a median beside it", "there is no median")
}

func (c *checker) act(path string, a Act) {
	mend := "write " + anyOf(Acts())
	if meant := near(string(a), Acts()); meant != "" {
		mend = fmt.Sprintf("did you mean %q?", meant)
	}
	c.is(a == "" || a.Help() != "", path, mend, "there is no act %q", a)
}

func (c *checker) time(path string, d time.Duration) {
	c.is(d >= 0, path, "write 0 or more", "%v is below zero", d)
}

func (c *checker) count(path string, n int) {
	c.is(n >= 0, path, "write 0 or more", "%d is below zero", n)
}

func (t *Turn) act() Act {
	if t.Do == "" {
		return DoAnswer
	}
	return t.Do
}

// fails reports whether it is a failure by a status.
func (t *Turn) fails() bool { return slices.Contains(wire.Failures(), wire.Failure(t.Do)) }

func anyOf[S ~string](all []S) string {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return "one of " + b.String()
}
