package llmtest

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// healthy is no failure at all.
func healthy(p *proving) error {
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		h := p.ask(m.stream)
		p.note(m.how, h)
		once := p.total() == 1 || p.Hedges > 0 && h.took >= p.Hedges
		p.expect(p.well(h) && once, "%s: the answer of the primary was expected, with one call: %s, %v", m.how,
			p.counts(), h.err)
	}
	return nil
}

// shortWait is a rate limit that passes.
func shortWait(p *proving) error {
	if p.lacks(p.Retries > 0, "no repetitions are promised", "Retries") {
		return nil
	}
	wait := time.Second
	if p.Within > 0 {
		wait = min(p.Within/4, wait)
	}
	if p.Hedges > 0 {
		wait = min(p.Hedges/2, wait)
	}
	p.primary.say(Turn{Do: DoRateLimited, RetryAfter: wait}, Turn{})
	h := p.ask(false)
	p.note("told to wait "+wait.String(), h)
	log := p.primary.Exchanges()
	most := (wait + time.Second - 1).Truncate(time.Second) // some wires tell whole seconds
	if beside := p.Hedges > 0 && most > p.Hedges && len(log) <= 2 && p.answered(h, p.backup); beside {
		p.observe("the backup was called beside the primary, which waits")
	} else if len(log) != 2 || !p.answered(h, p.primary) || p.backup.Count() > 0 {
		p.fail("one repetition that is answered by the primary was expected: %s, %v", p.counts(), h.err)
	} else if gap := log[1].At.Sub(log[0].At); gap < wait || gap > most+most/2+p.slack(most) {
		p.fail("the repetition came after %v, and %v was asked for", p.round(gap), wait)
	}
	return p.crowd(wait)
}

// crowd lets many callers be told the same wait. In real time a busy machine lets callers look as if they came at the same
// time, so there it is tried up to three times; those that do come at the same time do so each time.
func (p *proving) crowd(wait time.Duration) error {
	tries := 3
	if p.fake {
		tries = 1
	}
	for {
		if err := p.fresh(); err != nil {
			return err
		}
		callers := max(p.Callers, 20) // fewer say little about how they are spread
		again, most, early := p.comeBack(callers, wait)
		if tries--; tries > 0 && most > callers/2 {
			continue
		}
		p.observe("%d callers at once: %d repetitions, at most %d at the same time", callers, again, most)
		p.expect(early == 0, "%d repetitions came before the wait was over", early)
		p.expect(again <= callers, "%d callers made %d repetitions", callers, again)
		p.expect(most <= callers/2, "%d of %d callers came back at the same time: waits need jitter, or a bound on concurrency", most,
			callers)
		return nil
	}
}

// comeBack is how many callers came back after a wait, how many at the same time, and how many too early.
func (p *proving) comeBack(callers int, wait time.Duration) (again, most, early int) {
	p.primary.say(Turn{Do: DoRateLimited, RetryAfter: wait, Times: callers}, Turn{Wait: Latency{Fixed: wait / 100}})
	p.crowdOf(callers)
	log := p.primary.Exchanges()
	for i := callers; i < len(log); i++ {
		again++
		most = max(most, log[i].Concurrent)
		if log[i].At.Sub(log[0].At) < wait {
			early++
		}
	}
	return again, most, early
}

// longWait is a rate limit that outlasts the call.
func longWait(p *proving) error {
	if p.lacks(p.Within > 0, "no limit of time is promised", "Within") ||
		p.lacks(p.standsIn(llm.RateLimited), "no fallback is approved for rate limits", "StandsIn with RateLimited") {
		return nil
	}
	wait, most := max(10*p.Within, time.Second), 100*time.Millisecond
	if !p.fake { // the machine may be busy
		most = p.Within/4 + p.slack(0)
	}
	p.primary.say(Turn{Do: DoRateLimited, RetryAfter: wait})
	for _, m := range modes {
		before := p.backup.Count()
		h := p.ask(m.stream)
		p.note(m.how+", told to wait "+wait.String(), h)
		p.expect(p.answered(h, p.backup) && p.backup.Count() == before+1, "%s: the backup's answer was expected: %s, %v", m.how,
			p.counts(), h.err)
		p.expect(h.took <= most, "%s: the backup was well, and the call waited %v", m.how, p.round(h.took))
	}
	p.expect(p.primary.Count() <= 2, "the primary was asked %d times for 2 calls, and had asked for %v", p.primary.Count(), wait)
	p.expect(p.queued() == 0, "%d jobs were queued", p.queued())
	return nil
}

// quotaUsedUp is an account without credit.
func quotaUsedUp(p *proving) error {
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		p.primary.say(Turn{Do: DoQuota})
		h := p.ask(m.stream)
		p.note(m.how, h)
		p.expect(p.primary.Count() == 1, "%s: the same request was sent %d times to an empty account", m.how, p.primary.Count())
		if p.standsIn(llm.Quota) {
			p.expect(p.answered(h, p.backup), "%s: the backup, which is approved for it, did not answer: %v", m.how, h.err)
			continue
		}
		p.expect(h.unanswered() && p.backup.Count() == 0, "%s: the backup is not approved for it and was called %d times", m.how,
			p.backup.Count())
		if p.Rest > 0 {
			p.note("the next call", p.ask(m.stream))
			p.expect(p.primary.Count() == 1 && p.backup.Count() == 0, "%s: the next call asked again: %s", m.how, p.counts())
		}
	}
	return nil
}

// unavailable is a primary that is down.
func unavailable(p *proving) error {
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		p.primary.say(Turn{Do: DoUnavailable})
		h := p.ask(m.stream)
		p.note(m.how, h)
		log := p.primary.Exchanges()
		p.expect(len(log) >= 1 && len(log) <= 1+p.Retries, "%s: the primary was asked %d times, and %d repetitions are promised",
			m.how, len(log), p.Retries)
		for i := 1; i < len(log); i++ {
			p.expect(log[i].At.Sub(log[i-1].At) >= time.Millisecond, "%s: repetition %d followed at once", m.how, i)
		}
		if p.standsIn(llm.Unavailable) {
			p.expect(p.answered(h, p.backup) && p.backup.Count() == 1, "%s: the backup's answer was expected: %s, %v", m.how,
				p.counts(), h.err)
			continue
		}
		p.expect(h.unanswered() && p.backup.Count() == 0, "%s: the backup is not approved for it and was called %d times", m.how,
			p.backup.Count())
	}
	return nil
}

type classFailure struct {
	class llm.Class
	turn  Turn
	again int // how often it may be repeated on one deployment at most, by the table of classes
}

// often is as often as is promised.
const often = math.MaxInt

// classFailures are how a provider fails in each class.
var classFailures = []classFailure{
	{llm.Unavailable, Turn{Do: DoUnavailable}, often},
	{llm.Overloaded, Turn{Do: DoOverloaded}, often},
	{llm.Timeout, Turn{Do: DoTimeout}, often},
	{llm.RateLimited, Turn{Do: DoRateLimited}, often},
	{llm.Quota, Turn{Do: DoQuota}, 0},
	{llm.NotFound, Turn{Do: DoNotFound}, 0},
	{llm.Auth, Turn{Do: DoAuth}, 0},
	{llm.Refused, Turn{Do: DoContentPolicy}, 0},
	{llm.Invalid, Turn{Do: DoInvalid}, 0},
}

// unapproved is every failure that no fallback is approved for.
func unapproved(p *proving) error {
	if p.lacks(p.StandsIn != nil, "no fallback is promised", "StandsIn") {
		return nil
	}
	for _, f := range classFailures {
		if p.standsIn(f.class) || f.class == llm.Overloaded && p.standsIn(llm.Unavailable) {
			continue // of some wires the two look the same
		}
		if err := p.fresh(); err != nil {
			return err
		}
		p.primary.say(f.turn)
		h := p.ask(false)
		p.observe("%v: %s, %s", f.class, p.counts(), p.ended(h))
		p.expect(p.backup.Count() == 0, "the backup was called %d times for %v, which it is not approved for", p.backup.Count(),
			f.class)
		p.expect(h.unanswered() || h.resp.Refused(), "%v: there was an answer, %s", f.class, p.ended(h))
		p.expect(p.primary.Count() <= 1+p.Retries, "%v: the primary was asked %d times", f.class, p.primary.Count())
	}
	return nil
}

// rarerFailures are those of classFailures' kind that a chain may be approved to answer from elsewhere in ways of its own.
var rarerFailures = []classFailure{
	{llm.TooLong, Turn{Do: DoTooLong}, 0},
	{llm.BadOutput, Turn{Do: DoEmpty}, 1},
	{llm.Auth, Turn{Do: DoForbidden}, 0},
}

// everyClass is each way to fail, by a provider that fails so for ever.
func everyClass(p *proving) error {
	asked, order := map[string][]string{}, []string(nil) // what led to which counts
	for _, f := range slices.Concat(classFailures, rarerFailures) {
		again, what := 0, f.class.String()
		if act := string(f.turn.Do); act != what {
			what += " (" + act + ")"
		}
		if f.again > 0 {
			again = min(p.Retries, f.again)
		}
		for _, m := range modes {
			if err := p.fresh(); err != nil {
				return err
			}
			p.primary.say(f.turn)
			h := p.ask(m.stream)
			n, counts := p.primary.Count(), p.counts()
			if of := asked[counts]; of == nil {
				order = append(order, counts)
			}
			asked[counts] = append(asked[counts], what)
			p.expect(n >= 1 && n <= 1+again, "%s, %s: the primary was asked %s, and may be asked %d", what, m.how, plural(n, "time"),
				1+again)
			p.expect(p.total()-n <= 1, "%s, %s: others were asked %d times, and were well: %s, %s", what, m.how, p.total()-n, p.counts(),
				p.ended(h))
		}
	}
	for _, counts := range order {
		p.observe("%s: %s", counts, strings.Join(slices.Compact(asked[counts]), ", "))
	}
	return nil
}

// takesLong is a primary that takes long to its first token, once the chain knows how long it takes else.
func takesLong(p *proving) error {
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		const known = 6 // calls, from which a delay can be learned
		for range known {
			p.expect(p.well(p.ask(m.stream)), "%s: the primary was well and did not answer", m.how)
		}
		p.expect(p.backup.Count() == 0, "%s: the backup was called %d times beside a primary that was well", m.how, p.backup.Count())
		p.primary.say(Turn{Wait: Latency{Fixed: p.slowness()}})
		p.backup.say(Turn{Wait: Latency{Fixed: 10 * time.Millisecond}}) // in which both are asked
		h := p.ask(m.stream)
		p.note(m.how, h)
		slow, other := p.primary.Exchanges()[known:], p.backup.Exchanges()
		beside := time.Duration(-1)
		if len(slow) > 0 && len(other) > 0 {
			if after := other[0].At.Sub(slow[0].At); after < slow[0].Took {
				beside = after
			}
		}
		switch {
		case p.Hedges == 0 && p.fake:
			p.expect(beside < 0, "%s: the backup was called beside the primary, after %v; if that is meant, set Promises.Hedges to "+
				"the least delay", m.how, p.round(beside))
		case p.Hedges == 0:
		case beside < 0:
			p.fail("%s: the backup was not called beside the primary, which took %v: %s", m.how, p.slowness(), p.counts())
		default:
			p.expect(len(slow) == 1 && len(other) == 1 && p.answered(h, p.backup), "%s: one call of each was expected, and the backup's "+
				"answer: %s, %v", m.how, p.counts(), h.err)
			p.expect(beside >= p.Hedges || !p.fake, "%s: the backup was called after %v, and %v are promised at the least", m.how,
				p.round(beside), p.Hedges)
		}
	}
	return nil
}

// slowness is how long a primary takes that is slow: long enough to be called beside, where that is promised.
func (p *proving) slowness() time.Duration {
	d := time.Second
	if p.fake {
		d = 5 * time.Second
	}
	if p.Within > 0 {
		d = min(d, p.Within/4)
	}
	if p.Hedges > 0 {
		d = 10 * p.Hedges
	}
	return d
}

// toolSchema is a mistake in the application's own code.
func toolSchema(p *proving) error {
	p.primary.say(Turn{Do: DoToolSchema})
	req := p.request()
	bad := llm.Tool{Name: "look", Description: "looks", Parameters: []byte(`{"type":"objekt"}`)}
	req.Tools = append(slices.Clone(req.Tools), bad)
	for _, m := range modes {
		before := p.total()
		h := p.alone(p.ctx, req.Clone(), m.stream)
		p.note(m.how, h)
		made := p.total() - before
		p.expect(p.backup.Count() == 0 && made <= 1, "%s: the malformed request was sent %d times: %s", m.how, made, p.counts())
		refused := made == 0 && errors.Is(h.err, llm.Unsupported) // the deployment takes no tools at all
		p.expect(errors.Is(h.err, llm.Invalid) && made == 1 || refused,
			"%s: the application's error was expected, of class invalid: %s, %v", m.how, p.ended(h), h.err)
		p.expect(h.took < p.slack(200*time.Millisecond), "%s: the error came after %v", m.how, p.round(h.took))
	}
	p.expect(p.queued() == 0, "%d jobs were queued", p.queued())
	return nil
}

// toolCommitted is a tool that did its work and was not heard of again.
func toolCommitted(p *proving) error {
	if p.lacks(p.RunTools != nil, "no tools are promised", "RunTools") {
		return nil
	}
	const turn, most = "conversation-1/answer-1", 4
	call := llm.ToolCall{ID: "call_1", Name: p.tool.Name(), Arguments: []byte(`{"order":17}`)}
	req := p.request()
	req.Format = nil
	req.Tools = []llm.Tool{{Name: p.tool.Name(), Description: "Pays money back.", Parameters: []byte(`{"type":"object"}`)}}
	var failed error
	for try := 1; try <= most; try++ {
		call.ID = "call_" + string(rune('0'+try)) // ids of providers differ each time
		p.primary.say(Turn{Calls: []llm.ToolCall{call}})
		h := p.alone(p.ctx, req.Clone(), false)
		arrived := h.err == nil && len(h.resp.ToolCalls()) == 1
		p.expect(arrived, "the answer with the tool call did not arrive: %v", h.err)
		if !arrived {
			return nil
		}
		if failed = p.RunTools(p.ctx, turn, h.resp); failed == nil {
			p.observe("the turn was run %s", plural(try, "time"))
			break
		}
	}
	runs, looked := p.tool.counts()
	p.observe("the tool ran %s and was looked up %s", plural(runs, "time"), plural(looked, "time"))
	p.expect(runs == 1, "the tool had its effect %d times", runs)
	p.expect(failed == nil && looked > 0, "what the tool did was not looked up: %v", failed)
	return nil
}

// actsOnTheWorld is a request that must not be sent twice, and a connection that closes without a word.
func actsOnTheWorld(p *proving) error {
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		p.primary.say(Turn{Do: DoClose})
		req := p.request()
		req.ReplayUnsafe = true
		h := p.alone(p.ctx, req, m.stream)
		p.note(m.how, h)
		p.expect(p.total() == 1, "%s: it was sent %d times", m.how, p.total())
		p.expect(h.unanswered() && p.queued() == 0, "%s: %s, and %d jobs in the queue", m.how, p.ended(h), p.queued())
	}
	return nil
}
