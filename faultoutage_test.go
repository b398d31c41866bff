package llm_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm/llmtest"
)

// outage is a primary that is down for a while, with calls four seconds apart, which ask it so often at most meanwhile.
func outage(down time.Duration, calls, most int) fault {
	const apart = 4 * time.Second
	primary := func(x exchange) llmtest.Turn {
		if x.at < down {
			return refuses(http.StatusServiceUnavailable, "down", "")(x)
		}
		return isWell(x)
	}
	return fault{name: fmt.Sprintf("15 the primary is down for %v, %d calls 4 s apart", down, calls), primary: primary, calls: func(r *trial) {
		all := make([]heard, calls)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				<-time.NewTimer(time.Until(r.began.Add(r.pace.of(time.Duration(i) * apart)))).C
				all[i] = r.call(r.t.Context())
			})
		}
		wg.Wait()
		var probe *heard // that found the primary well
		for i := range all {
			h := all[i]
			r.sane(h)
			r.expect(h.err == nil, h, "an answer to each call")
			byPrimary := h.err == nil && h.resp.Deployment == "primary"
			if probe == nil && byPrimary {
				probe = &all[i]
			}
			r.expect(byPrimary || probe == nil || h.began < probe.began+probe.took, h, "the primary to serve once it is back")
		}
		last := all[calls-1]
		r.expect(probe != nil && probe.began <= down+30*time.Second, last, "the primary to serve within 30 s of its recovery")
		asked := 0
		for _, l := range r.primary.seen() {
			if l.at < down {
				asked++
			}
		}
		r.expect(asked <= most, last, "at most %d attempts on the primary while it was down, of %d calls; it had %d", most, calls, asked)
	}}
}

// What one outage of a minute shows could be luck: with the default rest of a minute its end falls together with that of the rest.
func TestThePrimaryServesWithin30sAfterAnyOutage(t *testing.T) {
	for down := 3 * time.Second; down < 4*time.Minute; down += 13 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			// Three for the first failure, two of a call that began meanwhile, and three for each probe.
			f := outage(down, int((down+30*time.Second)/(4*time.Second))+1, 5+3*int(down/(18*time.Second)))
			f.run(t, pace{div: 1}, overMemory)
		})
	}
}
