package middleware

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// What is limited by the minute.
const (
	perRequest = iota
	perInput
	perOutput
	perToken
	numMeters
)

var meterNames = [numMeters]string{"requests", "input tokens", "output tokens", "tokens"}

// limitCost is what a call takes of each.
type limitCost [numMeters]int

// costOf holds back numbers that are none: no sum of two of them is beyond what an int holds.
func costOf(requests, input, output int) limitCost {
	const most = math.MaxInt >> 4
	input, output = min(max(input, 0), most), min(max(output, 0), most)
	return limitCost{requests, input, output, input + output}
}

func (c *limitCost) add(o *limitCost, times int) {
	for i := range c {
		c[i] += times * o[i]
	}
}

// buckets are what is left of limits by the minute. Times never go back.
type buckets struct {
	of     [numMeters]*rate.Limiter // nil: not limited
	minute [numMeters]int
	burst  [numMeters]int // of the part that is in force
	whole  [numMeters]int // burst of all
	last   time.Time      // of all that was done
	taken  time.Time      // of what was taken

	// What was taken less what came back since synced, of which the limiters do not know yet, and what there surely is beside it
	// if isSure: calls that come close upon each other need not ask them.
	owed, sure [numMeters]int
	isSure     bool
	synced     time.Time

	// The share of the limits that is in force now, which grows by step at next, and every so often from then on.
	share, step float64
	part        float64 // of the limits, which is this process's: 1 unless it shares them with others and cannot ask
	every       time.Duration
	next        time.Time
	cut         time.Time     // when it was halved
	ramp        time.Duration // see LimiterConfig
	until       time.Time     // nothing goes before
}

func newBuckets(l Limits, burst, ramp time.Duration) buckets {
	b := buckets{minute: [numMeters]int{l.Requests, l.Input, l.Output, l.Tokens}, share: 1, part: 1, ramp: ramp}
	for i, n := range b.minute {
		if n == 0 {
			continue
		}
		worth := burst
		switch {
		case worth == 0 && i == perRequest:
			worth = time.Second
		case worth == 0:
			worth = 10 * time.Second
		}
		b.burst[i] = max(int(b.rate(i)*worth.Seconds()+1e-9), 1)
		b.whole[i] = b.burst[i]
		b.of[i] = rate.NewLimiter(rate.Limit(b.rate(i)), b.burst[i])
	}
	return b
}

// rate is the limit of a meter in a second.
func (b *buckets) rate(i int) float64 { return float64(b.minute[i]) / 60 * b.part }

// at is now, or the time that is known to be past already, with the share as it is then.
func (b *buckets) at(now time.Time) time.Time {
	if now.Before(b.last) {
		return b.last
	}
	for b.share < 1 && !now.Before(b.next) {
		b.setShare(b.next, b.share+b.step)
		b.next = b.next.Add(b.every)
	}
	b.last = now
	return now
}

// sync tells the limiters what is owed, as of when they heard of the rest: what comes back to a full one is lost.
func (b *buckets) sync(now time.Time) {
	for i, n := range b.owed {
		if n != 0 {
			b.owed[i] = 0
			b.charge(i, b.synced, n)
		}
	}
	b.isSure, b.synced = false, now
}

func (b *buckets) setShare(now time.Time, share float64) {
	b.sync(now)
	if share > 1-1e-9 {
		share = 1
	}
	b.share = share
	for i, l := range b.of {
		if l != nil {
			l.SetLimitAt(now, rate.Limit(b.rate(i)*share))
		}
	}
}

// grow sets a share from which all is reached in steps.
func (b *buckets) grow(now time.Time, share, step float64, every time.Duration) {
	b.setShare(now, share)
	b.step, b.every, b.next = step, every, now.Add(every)
}

// take takes all of c, or nothing. Something larger than burst takes what is not there yet.
func (b *buckets) take(now time.Time, c *limitCost) bool {
	now = b.at(now)
	if !b.open(now) {
		return false
	}
	if b.takeSure(now, c) {
		return true
	}
	often := now.Sub(b.synced) < closely
	b.sync(now)
	for i, l := range &b.of {
		if l == nil || c[i] == 0 {
			continue
		}
		ok := c[i] <= b.burst[i]
		if ok {
			ok = l.AllowN(now, c[i])
		} else if ok = c[i] <= b.minute[i] && b.isFull(i, now); ok {
			b.charge(i, now, c[i])
		}
		if !ok {
			for j := range i {
				b.charge(j, now, -c[j])
			}
			return false
		}
	}
	b.taken = now
	if often {
		for i, l := range &b.of {
			if l != nil {
				b.sure[i] = int(math.Floor(l.TokensAt(now)))
			}
		}
		b.isSure = true
	}
	return true
}

// open reports whether anything may go, and begins a ramp after a pause.
func (b *buckets) open(now time.Time) bool {
	if now.Before(b.until) {
		return false
	}
	if b.ramp > 0 && b.share == 1 && now.Sub(b.taken) >= b.ramp {
		b.grow(now, 0.25, 0.25, b.ramp/3)
	}
	return true
}

// closely is how long the limiters need not be asked: what they gain meanwhile is too little to matter.
const closely = time.Millisecond

// takeSure takes what is surely there.
func (b *buckets) takeSure(now time.Time, c *limitCost) bool {
	if !b.isSure || now.Sub(b.synced) >= closely {
		return false
	}
	for i := range c {
		if c[i] > b.sure[i] && b.of[i] != nil {
			return false
		}
	}
	for i := range c {
		b.sure[i] -= c[i]
		b.owed[i] += c[i]
	}
	b.taken = now
	return true
}

// charge takes n, also what is not there, up to what a minute brings, or gives it back if it is below 0.
func (b *buckets) charge(i int, now time.Time, n int) {
	l := b.of[i]
	if l == nil || n == 0 {
		return
	}
	if n > 0 {
		n = min(n, max(int(l.TokensAt(now))+b.minute[i], 0))
	}
	if n > b.burst[i] {
		l.SetBurstAt(now, n) // it refuses more at a time
		defer l.SetBurstAt(now, b.burst[i])
	}
	l.ReserveN(now, n)
}

// settle puts used in the place of reserved.
func (b *buckets) settle(reserved, used *limitCost) {
	for i := range b.of {
		switch more := used[i] - reserved[i]; {
		case b.of[i] == nil || more == 0:
		case more < 0:
			if b.isSure {
				more = max(more, b.sure[i]-b.burst[i])
				b.sure[i] -= more
			}
			b.owed[i] += more
		default:
			now := b.at(time.Now())
			b.sync(now)
			b.charge(i, now, more)
		}
	}
}

func (b *buckets) isFull(i int, now time.Time) bool {
	return b.of[i] == nil || b.of[i].TokensAt(now) >= float64(b.burst[i])-1e-6
}

// recovered reports whether b is as it was when it was new.
func (b *buckets) recovered(now time.Time) bool {
	now = b.at(now)
	b.sync(now)
	for i := range b.of {
		if !b.isFull(i, now) {
			return false
		}
	}
	return b.share == 1 && !now.Before(b.until)
}

// tooLarge says that c never fits. "": it does.
func (b *buckets) tooLarge(c *limitCost) string {
	for i, n := range b.minute {
		if n > 0 && c[i] > n {
			return fmt.Sprintf("it may take %d %s, and the limit is %d a minute", c[i], meterNames[i], n)
		}
	}
	return ""
}

// wait is how long it will be until c can be taken after all of ahead, and what stands in the way until then.
func (b *buckets) wait(now time.Time, ahead, c *limitCost) (longest time.Duration, why string) {
	now = b.at(now)
	b.sync(now)
	for i, l := range b.of {
		if l == nil || c[i] == 0 {
			continue
		}
		need := float64(min(c[i], b.burst[i])+ahead[i]) - l.TokensAt(now)
		if need <= 0 {
			continue
		}
		if d := b.accrue(now, need, b.rate(i)); d > longest {
			longest, why = d, fmt.Sprintf("%d %s a minute", b.minute[i], meterNames[i])
			if b.share < 1 {
				why += fmt.Sprintf(" (%.0f%% of it now)", b.share*100)
			}
		}
	}
	if rest := b.until.Sub(now); rest > longest {
		longest, why = rest, "what the provider asked for"
	}
	return longest, why
}

// accrue is how long it takes until there is as much as need more.
func (b *buckets) accrue(now time.Time, need, perSecond float64) time.Duration {
	share, at, next := b.share, time.Duration(0), b.next.Sub(now)
	for share < 1 {
		got := perSecond * share * (next - at).Seconds()
		if got >= need {
			break
		}
		need -= got
		at, next, share = next, next+b.every, min(share+b.step, 1)
	}
	ns := math.Ceil(need/(perSecond*share)*1e9 - 1e-3)
	return at + time.Duration(min(max(ns, 1), float64(100*365*24*time.Hour)))
}
