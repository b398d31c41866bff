package llmtest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
)

// interruption is a stream that breaks after something was seen.
func interruption(p *proving) error {
	if p.lacks(p.Held >= 0, "the whole answer is held back, so that no break is seen", "Held to 0 or more") {
		return nil
	}
	for _, turn := range []Turn{{Do: DoCutChunk}, {Do: DoError}, {Do: DoCut}} {
		if err := p.fresh(); err != nil {
			return err
		}
		turn.At = p.cut()
		p.primary.say(turn)
		h := p.ask(true)
		p.note(string(turn.Do)+" after "+plural(turn.At, "piece"), h)
		if p.Continues {
			p.expect(h.err == nil, "%s: the answer was to be continued, as Promises.Continues says: %s", turn.Do, p.ended(h))
			p.expect(h.err != nil || h.resp.Continued, "%s: the answer does not say that it was continued", turn.Do)
			continue
		}
		shown := strings.Join(words(p.primary.answer())[:turn.At], "")
		p.expect(h.err != nil, "%s: a broken answer was given for a whole one", turn.Do)
		p.expect(h.heard == shown, "%s: %q was shown, and the primary said %q", turn.Do, brief(h.heard), brief(shown))
		broken := errors.Is(h.err, llm.Interrupted) || errors.Is(h.err, llm.Stalled)
		p.expect(h.err == nil || broken, "%s: an error of class interrupted was expected: %v", turn.Do, h.err)
		p.expect(p.total() == 1 && p.queued() == 0, "%s: one call was expected and nothing in the queue: %s, %d jobs", turn.Do,
			p.counts(), p.queued())
	}
	return nil
}

// lackingField is a backup that answers what the application cannot use.
func lackingField(p *proving) error {
	if p.lacks(p.Lacking != "", "no check of answers is promised", "Lacking") ||
		p.lacks(p.standsIn(llm.Unavailable), "no fallback is approved for a primary that is down", "StandsIn with Unavailable") {
		return nil
	}
	p.primary.say(Turn{Do: DoUnavailable})
	p.backup.say(Turn{Text: p.Lacking})
	for _, m := range modes {
		h := p.ask(m.stream)
		p.note(m.how, h)
		p.expect(h.unanswered(), "%s: the answer was let through: %s", m.how, p.ended(h))
	}
	p.expect(p.backup.Count() > 0, "the backup was never asked")
	return nil
}

// A streamFault is one of the faults of streams: what the primary, and perhaps the backup, does.
type streamFault struct {
	name   string
	class  llm.Class // of the failure, where a backup approved for it has to save the call. Unknown: none has to
	turns  func(*proving) (primary, backup []Turn)
	calls  int  // 0: 2
	closed bool // it fails everywhere
}

// streamFaults are the sixteen faults of streams.
func streamFaults() []streamFault {
	does := func(turns ...Turn) func(*proving) ([]Turn, []Turn) {
		return func(*proving) ([]Turn, []Turn) { return turns, nil }
	}
	cut := func(act Act, backup ...Turn) func(*proving) ([]Turn, []Turn) {
		return func(p *proving) ([]Turn, []Turn) { return []Turn{{Do: act, At: p.cut()}}, backup }
	}
	silent := func(turn func(*proving, time.Duration) Turn) func(*proving) ([]Turn, []Turn) {
		return func(p *proving) ([]Turn, []Turn) { return []Turn{turn(p, p.silence())}, nil }
	}
	short := Turn{Do: DoRateLimited, RetryAfter: 100 * time.Millisecond}
	return []streamFault{
		{name: "1 429 with a wait of 100 ms, then fine", turns: does(short, Turn{})},
		{name: "2 429 for ever without a hint", class: llm.RateLimited, turns: does(Turn{Do: DoRateLimited})},
		{name: "3 500 once", class: llm.Unavailable, turns: does(Turn{Do: DoServerError}, Turn{})},
		{name: "4 503 for ever", class: llm.Unavailable, turns: does(Turn{Do: DoUnavailable})},
		{name: "5 reset before the headers once", class: llm.Unavailable, turns: does(Turn{Do: DoReset}, Turn{})},
		{name: "6 accepts and never answers", class: llm.Stalled, turns: silent(func(_ *proving, d time.Duration) Turn {
			return Turn{Do: DoSilence, Hold: d}
		})},
		{name: "7 headers at once, the first token late", class: llm.Stalled, turns: silent(func(_ *proving, d time.Duration) Turn {
			return Turn{First: Latency{Fixed: d}}
		})},
		{name: "8 the stream dies", turns: cut(DoCutChunk)},
		{name: "8 the stream ends in order before its end", turns: cut(DoCut)},
		{name: "8 the stream is reset", turns: cut(DoResetBody)},
		{name: "9 silent in the midst of the answer", turns: silent(func(p *proving, d time.Duration) Turn {
			return Turn{Do: DoStall, At: p.cut(), Hold: d}
		})},
		{name: "10 an event that is no JSON, the rest fine", turns: cut(DoMalformed)},
		{name: "10 an event that lost its end, the rest fine", turns: cut(DoTruncated)},
		{name: "11 a complete stream without its last mark", turns: does(Turn{Do: DoNoDone})},
		{name: "11 a stream that never says why it ended", turns: does(Turn{Do: DoNoEnd})},
		{name: "12 400 the context is too long", turns: does(Turn{Do: DoTooLong}), closed: true},
		{name: "13 400 content policy", turns: does(Turn{Do: DoContentPolicy}), closed: true},
		{name: "14 the stream is cut and the backup rejects the beginning", turns: cut(DoCutChunk, Turn{Do: DoInvalid})},
		{name: "15 an outage that passes", turns: does(Turn{Do: DoUnavailable, Times: 6}, Turn{}), calls: 8},
		{name: "16 the account of an answer of the backup", class: llm.Overloaded, turns: does(Turn{Do: DoOverloaded})},
	}
}

// silence is longer than any call.
func (p *proving) silence() time.Duration {
	switch {
	case p.fake:
		return 2*time.Minute + 4*p.Within
	case p.Within > 0:
		return 2 * p.Within
	}
	return 3 * time.Second
}

// run makes some calls under a fault, which are all held to the laws.
func (f streamFault) run(p *proving) error {
	for _, m := range modes {
		if err := p.fresh(); err != nil {
			return err
		}
		primary, backup := f.turns(p)
		p.primary.say(primary...)
		p.backup.say(backup...)
		calls := max(f.calls, 2)
		var ends []string
		for range calls {
			h := p.ask(m.stream)
			ends = append(ends, p.ended(h))
			if p.standsIn(f.class) && f.class != llm.Unknown && p.Attempts != 1 {
				p.expect(!h.unanswered(), "%s: the backup is approved for %v and well, and the call got %s: %v", m.how, f.class,
					p.ended(h), h.err)
			}
			if f.closed && h.err == nil && !p.standsIn(llm.TooLong) && !p.Long {
				p.expect(h.unanswered() || h.resp.Refused(), "%s: what fails everywhere was answered: %s", m.how, p.ended(h))
			}
		}
		p.observe("%s: %s, %s", m.how, p.counts(), strings.Join(slices.Compact(ends), ", then "))
		p.expect(p.primary.Count() > 0, "%s: the primary was never asked", m.how)
		if f.class == llm.Unknown || !p.standsIn(f.class) {
			continue
		}
		p.expect(p.primary.Count() <= calls*(1+p.Retries), "%s: %d calls asked the primary %d times", m.how, calls, p.primary.Count())
	}
	return nil
}
