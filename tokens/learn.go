package tokens

import (
	"context"

	"github.com/modelchain/llm"
)

// How a Counter learns: an answer that shows a higher count than estimated moves the correction an eighth of the way,
// one that shows a lower count a 64th, never below none and never above double. Small requests say little, as a fixed
// surplus weighs much in them.
const (
	learnUp, learnDown = 8, 64
	learnLeast         = 100
	mostCorrection     = 2 * unit
)

// Learn tells c how many input tokens the provider counted for req, so that later estimates are corrected: up soon, down
// slowly, at most to double, never below what c counts by itself. A request whose lengths alone show that it stays
// within limit teaches nothing, as such requests are not counted; a limit of 0 or less teaches always.
func (c *Counter) Learn(ctx context.Context, req *llm.Request, limit, input int) {
	if req == nil || input <= 0 {
		return
	}
	p := c.profile(req)
	rest := p.bound(req, c.config.Media)
	if limit > 0 && (rest*int(c.correction.Load())+unit-1)/unit <= limit {
		return
	}
	if estimate, err := c.count(ctx, req, p, 0, rest); err == nil {
		c.learn(estimate, input)
	}
}

func (c *Counter) learn(estimate, actual int) {
	if estimate < learnLeast {
		return
	}
	to := min(max(int64(actual)*unit/int64(estimate), unit), mostCorrection)
	for {
		old := c.correction.Load()
		correction := old
		switch {
		case to > old:
			correction += (to - old + learnUp - 1) / learnUp
		case to < old:
			correction -= (old - to + learnDown - 1) / learnDown
		}
		if c.correction.CompareAndSwap(old, correction) {
			return
		}
	}
}

// Correction is what c has learned: counts are multiplied with it. It starts at 1.
func (c *Counter) Correction() float64 { return float64(c.correction.Load()) / unit }
