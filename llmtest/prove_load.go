package llmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelchain/llm"
)

// together calls f for each of n callers at once, which note what they see one at a time.
func (p *proving) together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
	p.hung()
	p.settle()
}

// crowdOf asks n times at once and returns what came of it.
func (p *proving) crowdOf(n int) []*hearing {
	all := make([]*hearing, n)
	p.together(n, func(i int) { all[i] = p.call(p.ctx, p.request(), false) })
	for _, h := range all {
		p.laws(h)
	}
	return all
}

// circuit is a primary that is down for longer, and comes back.
func circuit(p *proving) error {
	if p.lacks(p.Rest > 0, "no rest is promised", "Rest") {
		return nil
	}
	const most = 50
	callers := p.Callers
	slow := Latency{Fixed: p.Rest / 10}
	if p.Hedges > 0 { // nobody is to be called beside it
		slow.Fixed = min(slow.Fixed, p.Hedges/2)
	}
	p.primary.say(Turn{Do: DoUnavailable})
	needed := 0
	for ; needed < most; needed++ {
		before := p.primary.Count()
		if p.ask(false); p.primary.Count() == before {
			break
		}
		if err := p.pause(p.Rest / 100); err != nil {
			return err
		}
	}
	if needed == most {
		p.fail("after %d calls that failed the primary still was not left alone", most)
		return nil
	}
	open := p.primary.Count()
	p.observe("it opened after %s and %s", plural(needed, "call"), plural(open, "request"))
	p.primary.say(Turn{Do: DoUnavailable, Wait: slow})
	rescued := 0
	for _, h := range p.crowdOf(callers) {
		if p.answered(h, p.backup) {
			rescued++
		}
	}
	p.observe("open: %d of %d callers asked it, %d were answered by the backup", p.primary.Count()-open, callers, rescued)
	p.expect(p.primary.Count() == open, "while it rests the primary was asked %d times", p.primary.Count()-open)
	p.expect(rescued == callers || !p.standsIn(llm.Unavailable), "the backup is approved and answered %d of %d", rescued, callers)

	if err := p.pause(p.Rest + p.Rest/5); err != nil {
		return err
	}
	probes, atOnce := p.probe(callers)
	p.observe("half open: of %d callers the probe made %s, at most %d at the same time", callers, plural(probes, "request"), atOnce)
	p.expect(probes >= 1 && probes <= 1+p.Retries && atOnce == 1,
		"one probe of at most %d requests was expected, %d were made, %d at the same time", 1+p.Retries, probes, atOnce)

	p.primary.say(Turn{Wait: slow})
	if err := p.pause(2*p.Rest + p.Rest/2); err != nil {
		return err
	}
	probes, _ = p.probe(callers)
	p.expect(probes == 1, "when it was well again one probe was expected, and the primary was asked %d times", probes)
	back := 0
	for _, h := range p.crowdOf(callers) {
		if p.well(h) {
			back++
		}
	}
	p.observe("well again: the probe made %s, then the primary answered %d of %d", plural(probes, "request"), back, callers)
	p.expect(back == callers, "after a probe that was answered the primary answered %d of %d", back, callers)
	return nil
}

// probe lets many callers come at once and returns how many requests the primary had of them, and at once.
func (p *proving) probe(callers int) (requests, atOnce int) {
	before := p.primary.Count()
	p.crowdOf(callers)
	log := p.primary.Exchanges()[before:]
	for i := range log {
		atOnce = max(atOnce, log[i].Concurrent)
	}
	return len(log), atOnce
}

// everythingDown is an outage of all.
func everythingDown(p *proving) error {
	if p.lacks(p.Attempts > 0, "no limit of attempts is promised", "Attempts") {
		return nil
	}
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		p.primary.say(Turn{Do: DoUnavailable})
		p.backup.say(Turn{Do: DoUnavailable})
		h := p.ask(m.stream)
		p.note(m.how, h)
		p.expect(h.unanswered(), "%s: %s", m.how, p.ended(h))
	}
	return nil
}

// stormSeed is that of the moments at which callers leave.
const stormSeed = 20260

// cancelStorm is many callers who leave at any moment.
func cancelStorm(p *proving) error {
	callers := 3 * p.Callers
	slow := Turn{
		Wait: Latency{Max: 30 * time.Millisecond}, First: Latency{Max: 20 * time.Millisecond}, Gap: Latency{Fixed: time.Millisecond},
	}
	p.ask(false) // what the chain starts once is there before the goroutines are counted
	p.ask(true)
	p.primary.say(slow)
	p.backup.say(slow)
	id := fmt.Sprintf("%p", p)
	draw := rand.New(rand.NewPCG(stormSeed, 1)) //nolint:gosec // the same each time
	leave := make([]time.Duration, callers)
	for i := range leave {
		leave[i] = time.Duration(draw.Int64N(int64(70 * time.Millisecond)))
	}
	all := make([]*hearing, callers)
	late := make([]time.Duration, callers)
	pprof.Do(p.ctx, pprof.Labels(stormLabel, id), func(ctx context.Context) {
		p.together(callers, func(i int) {
			ctx, cancel := context.WithCancel(ctx)
			defer time.AfterFunc(leave[i], cancel).Stop()
			all[i] = p.call(ctx, p.request(), i%2 == 1)
			late[i] = all[i].took - leave[i]
		})
	})
	left, worst := 0, time.Duration(0)
	for i, h := range all {
		p.laws(h)
		worst = max(worst, late[i])
		if h.err == nil {
			continue
		}
		left++
		p.expect(errors.Is(h.err, context.Canceled), "a caller who left was told %v", h.err)
	}
	p.expect(worst < p.slack(0), "a caller who left was held for %v", p.round(worst))
	behind, err := p.leftBehind(id)
	if err != nil {
		return err
	}
	p.observe("%d of %d callers left, and were let go within %v; %s stayed behind", left, callers, p.round(max(worst, 0)),
		plural(behind, "goroutine"))
	p.expect(behind == 0, "%s stayed behind", plural(behind, "goroutine"))
	p.expect(p.queued() == 0, "%d jobs of callers who had left were queued", p.queued())
	p.primary.say()
	p.backup.say()
	served := 0
	for _, h := range p.crowdOf(callers) {
		if p.well(h) {
			served++
		}
	}
	p.observe("afterwards the primary answered %d of %d at once", served, callers)
	p.expect(served == callers, "afterwards the primary answered %d of %d: it rests, or places are still taken", served, callers)
	return nil
}

// abandoned is callers who leave while the providers are at work, which would take them for long.
func abandoned(p *proving) error {
	busy := Turn{Do: DoSilence, Hold: p.silence()}
	p.primary.say(busy)
	p.backup.say(busy)
	const patience = 50 * time.Millisecond
	all := make([]*hearing, p.Callers)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(p.ctx)
			defer cancel()
			defer time.AfterFunc(patience, cancel).Stop()
			all[i] = p.call(ctx, p.request(), i%2 == 1)
		})
	}
	wg.Wait()
	p.hung()
	left := p.total()
	if err := p.pause(p.slack(0)); err != nil { // connections end a little later than calls
		return err
	}
	open := 0
	for _, s := range p.stands() {
		n, _ := s.Concurrent()
		open += n
	}
	for _, h := range all {
		p.expect(h.unanswered(), "a caller who left had an answer of a provider that was silent")
	}
	p.expect(open == 0, "all callers had left, and %s still went on", plural(open, "provider call"))
	more := 2 * p.silence() // whatever limits a call that nobody waits for has passed by then
	if !p.fake {
		more, left = time.Second, p.total() // a request may have been on its way when its caller left
	}
	if err := p.pause(more); err != nil {
		return err
	}
	late := p.total() - left
	p.expect(late == 0, "%s began after all callers had left", plural(late, "provider call"))
	p.observe("%d callers left after %v: %s went on, %s began", p.Callers, patience, plural(open, "provider call"),
		plural(late, "provider call"))
	return nil
}

// stormLabel marks the goroutines of a storm: those that they start inherit it.
const stormLabel = "llmtest.storm"

// leftBehind is how many goroutines of a storm stay, once connections that wait for a next request are closed.
func (p *proving) leftBehind(id string) (n int, err error) {
	want := []byte(strconv.Quote(stormLabel) + ":" + strconv.Quote(id))
	for range 200 {
		for _, s := range p.stands() {
			s.Client().CloseIdleConnections()
		}
		var profile bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			return 0, err
		}
		n = 0
		_, groups, _ := bytes.Cut(profile.Bytes(), []byte("\n")) // after the line with the total
		for group := range bytes.SplitSeq(groups, []byte("\n\n")) {
			if !bytes.Contains(group, want) {
				continue
			}
			head, _, _ := strings.Cut(strings.TrimSpace(string(group)), " ")
			count, err := strconv.Atoi(head)
			if err != nil {
				return 0, fmt.Errorf("the profile of goroutines has a group that begins %q", head)
			}
			n += count
		}
		if n == 0 {
			return 0, nil
		}
		if err := p.pause(10 * time.Millisecond); err != nil {
			return n, err
		}
	}
	return n, nil
}

// deadlineOfCaller is a caller with little time and providers that are silent.
func deadlineOfCaller(p *proving) error {
	left := 2 * time.Second
	if p.Within > 0 {
		left = p.Within / 4
	}
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		p.primary.say(Turn{Do: DoSilence, Hold: p.silence()})
		p.backup.say(Turn{Do: DoSilence, Hold: p.silence()})
		ctx, cancel := context.WithTimeout(p.ctx, left)
		h := p.alone(ctx, p.request(), m.stream)
		cancel()
		p.note(m.how+", with "+left.String(), h)
		p.expect(h.unanswered() && p.primary.Count() > 0, "%s: %s, %s", m.how, p.counts(), p.ended(h))
		p.expect(h.took <= left+p.slack(left), "%s: the caller had %v and heard after %v", m.how, left, p.round(h.took))
		if h.err == nil || h.took < left || llm.ClassOf(h.err) == llm.Queued {
			continue // marked as a stand-in, given up before for its own reasons, or to be answered later
		}
		p.expect(errors.Is(h.err, context.DeadlineExceeded), "%s: the deadline is not in the chain of %v", m.how, h.err)
	}
	return nil
}

// oversized is a request that is too long for the primary.
func oversized(p *proving) error {
	if p.lacks(p.Window > 0, "no window is promised", "Window") {
		return nil
	}
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		req := p.request()
		req.Messages = []llm.Message{llm.User(strings.Repeat("word ", 2*p.Window))}
		h := p.alone(p.ctx, req, m.stream)
		p.note(m.how, h)
		if p.Long {
			p.expect(p.answered(h, p.long) && p.total() == 1, "%s: the answer of the larger window was expected, with one call: %s, %v",
				m.how, p.counts(), h.err)
			continue
		}
		p.expect(p.total() == 0 && h.unanswered(), "%s: it was to be refused before it is sent: %s, %s", m.how, p.counts(), p.ended(h))
		p.expect(h.err == nil || errors.Is(h.err, llm.TooLong), "%s: an error of class too_long was expected: %v", m.how, h.err)
	}
	return nil
}

// refusal is a model that declines.
func refusal(p *proving) error {
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		p.primary.say(Turn{Do: DoRefuse, Text: "I cannot help with that."}, Turn{})
		h := p.ask(m.stream)
		p.note(m.how, h)
		p.expect(h.err == nil && h.resp.Refused() && p.total() == 1, "%s: the refusal was expected, after one call: %s, %v", m.how,
			p.counts(), h.err)
		next := p.ask(m.stream)
		p.note("the next call", next)
		p.expect(p.well(next), "%s: the next call was not the primary's: %s, %v", m.how, p.counts(), next.err)
	}
	return nil
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
