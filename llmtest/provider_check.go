package llmtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/near"
	"github.com/modelchain/llm/llmtest/internal/wire"
)

// A problem is a mistake in a configuration: where, what, and how to mend it.
type problem struct {
	path, what, mend string
}

func (p *problem) Error() string { return p.path + ": " + p.what + "; " + p.mend }

// checker finds the first problem.
type checker struct {
	found *problem
	// file: it is a file, whose turns were written one by one. Code makes tables of them, with an At for all acts.
	file bool
}

func (c *checker) is(ok bool, path, mend, what string, args ...any) {
	if !ok && c.found == nil {
		c.found = &problem{path, fmt.Sprintf(what, args...), mend}
	}
}

// check finds what cannot be meant.
func (cfg *ProviderConfig) check(file bool) *problem {
	c := &checker{file: file}
	for i := range cfg.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		c.is(i == 0 || !cfg.Routes[i-1].forAll(), path, "put it before that one, or give that one a condition",
			"no request comes to it: the route before it is for all")
		c.route(path, &cfg.Routes[i])
	}
	return c.found
}

func (c *checker) route(path string, r *Route) {
	known := r.API == "" || slices.Contains(wire.APIs(), wire.API(r.API))
	c.is(known, path+".api", "write "+anyOf(wire.APIs()), "there is no API %q", r.API)
	star := strings.Index(r.Model, "*")
	c.is(star < 0 || star == len(r.Model)-1, path+".model", `write a whole name, or how it begins: "gpt-*"`,
		"a * can stand at the end alone, and this is %q", r.Model)
	c.headers(path+".header", r.Header)
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
	then := Turn{Do: r.Quota.Then}
	c.is(then.Do == "" || then.fails() || slices.Contains(awayActs, then.Do), path+".quota.then",
		"write a failure, such as rate_limited", "%q does not turn a request away", then.Do)
	c.is(r.Quota == (Quota{}) || r.Quota.Requests > 0 || r.Quota.Tokens > 0, path+".quota", "give it requests or tokens",
		"it bounds nothing")
	c.latency(path+".wait", r.Wait)
}

func (c *checker) turn(path string, t *Turn) {
	c.act(path+".do", t.Do)
	c.is(t.Error == "" || slices.Contains(wire.Failures(), wire.Failure(t.Error)), path+".error", "write "+anyOf(wire.Failures()),
		"%q is no failure that a stream can end in", t.Error)
	c.is(t.Error == "" || t.Do == DoError || t.OneOf != nil, path+".error",
		"write the act error beside it, or the failure as the act", "only the act error ends in a failure, and this is %q", t.act())
	c.count(path+".times", t.Times)
	c.is(t.OneOf == nil || len(t.OneOf) > 0, path+".one_of", "write turns into it, or leave it out", "there is nothing to draw from")
	c.is(t.OneOf == nil || t.Do == "", path+".do", "write it into the turns of one_of", "a turn of one_of is done in its place")
	c.is(t.Text == "" || t.Pieces == nil, path+".pieces", "leave out one of them", "there are pieces beside a text")
	c.is(t.Weight >= 0, path+".weight", "write 0 or more", "%v is below zero", t.Weight)
	for i := range t.OneOf {
		c.turn(fmt.Sprintf("%s.one_of[%d]", path, i), &t.OneOf[i])
	}
	for i, call := range t.Calls {
		object := strings.HasPrefix(strings.TrimSpace(string(call.Arguments)), "{")
		c.is(object && json.Valid(call.Arguments), fmt.Sprintf("%s.calls[%d].arguments", path, i),
			`write a JSON object, such as {"city":"Oslo"}`,
			"the arguments are no JSON object: %s", call.Arguments)
	}
	stops := []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopToolCalls, llm.StopRefusal, llm.StopFiltered}
	c.is(t.Stop == "" || slices.Contains(stops, t.Stop), path+".stop", "write "+anyOf(stops), "no answer ends by %q", t.Stop)
	c.latency(path+".wait", t.Wait)
	c.latency(path+".first", t.First)
	c.latency(path+".gap", t.Gap)
	c.count(path+".at", t.At)
	c.is(t.At == 0 || breaks(t.Do) || t.OneOf != nil || !c.file, path+".at", "write "+anyOf(breakingActs)+" as the act, or leave it "+
		"out",
		"nothing breaks after pieces of an answer, and this is %q", t.act())
	most := t.mostPieces()
	c.is(!breaks(t.Do) || t.At <= most, path+".at", fmt.Sprintf("write up to %d, or a longer text", most),
		"the answer has no %d pieces", t.At)
	usage := reflect.ValueOf(t.Usage)
	for i := range usage.NumField() {
		if n, ok := reflect.TypeAssert[int](usage.Field(i)); ok {
			c.count(path+".usage."+snake(usage.Type().Field(i).Name), n)
		}
	}
	c.headers(path+".header", t.Header)
	c.time(path+".hold", t.Hold)
	c.time(path+".retry_after", t.RetryAfter)
	final := t.Status == 0 || t.Status >= 200 && t.Status <= 599
	c.is(final, path+".status", "write 200 to 599", "%d is no status of an answer", t.Status)
	answers := breaks(t.Do) || slices.Contains(wholeActs, t.act())
	c.is(t.Status == 0 || !answers || t.Status < 300 && t.Status != 204 && t.Status != 205, path+".status",
		"write a failure as the act, or raw with status and body", "an answer does not come with status %d", t.Status)
	c.is(t.Body == "" || t.Do == DoRaw || t.fails(), path+".body", "write text, or the act raw",
		"only raw and the failures take a body, and this is %q", t.act())
}

// The acts by what they have in common.
var (
	// wholeActs are those of answers that are whole.
	wholeActs = []Act{DoAnswer, DoRefuse, DoFilter, DoEmpty}
	// breakingActs are those that come after pieces of an answer.
	breakingActs = []Act{DoResetBody, DoStall, DoCut, DoCutChunk, DoMalformed, DoTruncated, DoError}
	// awayActs are those that turn a request away, beside the failures.
	awayActs = []Act{DoPage, DoRaw, DoBlank, DoReset, DoResetHeaders, DoClose, DoSilence}
)

// mostPieces is how many pieces of content an answer has at most: a tool call is up to three.
func (t *Turn) mostPieces() int {
	n := len(words(t.Text)) + len(t.Pieces) + 3*len(t.Calls)
	return max(n, 1) + len(words(t.Reasoning))
}

// forAll reports whether a route has no condition.
func (r *Route) forAll() bool {
	return (r.Model == "" || r.Model == "*") && r.API == "" && len(r.Header) == 0 && r.Match == nil
}

func (c *checker) headers(path string, h map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		c.is(isToken(name), path+"."+name, `write a name such as "x-tenant"`, "%q is no name of a header", name)
		c.is(!strings.ContainsFunc(h[name], isControl), path+"."+name, "write one line", "the value has a line break or the like in it")
	}
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
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
	if meant := near.Word(string(a), Acts()); meant != "" {
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
