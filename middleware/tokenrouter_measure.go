package middleware

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelchain/llm"
)

// Where a request goes.
const (
	fitsNowhere = iota
	toNormal
	toLong
)

// measure finds out where a request goes that does not surely fit.
type measure struct {
	*tokenRouter
	req   *llm.Request
	memo  *memo
	least int // tokens that the input is known to have
}

// newMeasure knows of req that Counter counts more than over.
func newMeasure(t *tokenRouter, req *llm.Request, over int) *measure {
	m := &measure{tokenRouter: t, req: req}
	if t.cfg.Counter != nil {
		m.memo = &memo{counter: t.cfg.Counter, req: req, over: over}
	}
	return m
}

// request is what is passed on: with the counter, since a deployment beneath may need it.
func (m *measure) request() *llm.Request {
	if m.memo == nil {
		return m.req
	}
	return m.req.WithCounter(m.memo)
}

func (m *measure) route(ctx context.Context) int {
	fits := func(d *llm.Deployment) bool { return m.fits(ctx, d, 0) }
	switch {
	case m.fits(ctx, m.first, m.margin):
		return toNormal
	case m.long.Caller != nil && (len(m.long.leaves) == 0 || slices.ContainsFunc(m.long.leaves, fits)):
		return toLong
	case slices.ContainsFunc(m.normal.leaves, fits):
		return toNormal
	}
	return fitsNowhere
}

// fits reports whether d holds the request with margin tokens kept free. What cannot be counted fits.
func (m *measure) fits(ctx context.Context, d *llm.Deployment, margin int) bool {
	if d.Window <= 0 {
		return true
	}
	room := d.Window - margin - m.output(m.req)
	if room <= 0 {
		return false
	}
	var c llm.TokenCounter = m.memo
	if d.Counter != nil {
		c = d.Counter
	}
	n, err := c.CountTokens(ctx, m.req, room)
	if err != nil || n <= room {
		return true
	}
	m.least = max(m.least, n)
	return false
}

// unfit says that d does not hold the request.
func (m *measure) unfit(d *llm.Deployment, margin int) *llm.Error {
	return &llm.Error{
		Class: llm.TooLong, Owner: llm.OwnerRequest, Deployment: d.Name, Provider: d.Provider, Model: d.Model,
		Message: "the input exceeds the " + m.room(d, margin),
	}
}

// room tells what d holds, such as "3904 tokens that a window of 8000 leaves beside 4096 for the answer".
func (m *measure) room(d *llm.Deployment, margin int) string {
	out := m.output(m.req)
	var beside []string
	if out > 0 {
		beside = append(beside, fmt.Sprintf("%d for the answer", out))
	}
	if margin > 0 {
		beside = append(beside, fmt.Sprintf("a margin of %d", margin))
	}
	text := fmt.Sprintf("%d tokens that a window of %d leaves", max(d.Window-out-margin, 0), d.Window)
	if beside != nil {
		text += " beside " + strings.Join(beside, " and ")
	}
	return text
}

// tooLong notes that nothing beneath holds r, and says so.
func (m *measure) tooLong(r *llm.Request) *llm.Error {
	var names, rooms []string
	for _, d := range slices.Concat(m.normal.leaves, m.long.leaves) {
		if slices.Contains(names, d.Name) {
			continue
		}
		names = append(names, d.Name)
		rooms = append(rooms, fmt.Sprintf("%s takes the %s", d.Name, m.room(d, 0)))
		r.Skipped(m.unfit(d, 0))
	}
	size := ""
	if m.least > 0 {
		size = fmt.Sprintf(" of %d tokens or more", m.least)
	}
	return &llm.Error{
		Class: llm.TooLong, Owner: llm.OwnerRequest, Attempts: r.Attempts(),
		Message: fmt.Sprintf("the input%s fits nowhere: %s; shorten it, ask for a shorter answer, or add a deployment with a "+
			"larger window", size, strings.Join(rooms, "; ")),
	}
}

// learner is a counter that learns from what a provider counted for a request. One that it can tell to stay within limit
// without counting teaches nothing.
type learner interface {
	Learn(ctx context.Context, req *llm.Request, limit, input int)
}

// learn tells the counter of the deployment in b that answered. Only requests that take a good part of its window matter:
// no others are ever counted.
func (t *tokenRouter) learn(ctx context.Context, req *llm.Request, resp *llm.Response, b *branch) {
	input := resp.Usage.Input
	if input <= 0 || resp.Usage.Estimated || resp.Continued || resp.Degraded {
		return
	}
	for _, d := range b.leaves {
		if d.Name != resp.Deployment {
			continue
		}
		room := d.Window - t.output(req)
		if d.Window <= 0 || input < room/4 {
			return
		}
		c := d.Counter
		if c == nil {
			c = t.cfg.Counter
		}
		if l, ok := c.(learner); ok {
			l.Learn(ctx, req, room, input)
		}
		return
	}
}

// memo is a counter for one request that keeps what it has learned about it, as every attempt beneath asks again.
type memo struct {
	counter llm.TokenCounter
	req     *llm.Request

	mu     sync.Mutex
	within int // the count is known not to exceed this. 0: nothing known
	over   int // and to exceed this. 0: nothing known
}

// CountTokens counts req, if it still asks what it was.
func (m *memo) CountTokens(ctx context.Context, req *llm.Request, limit int) (int, error) {
	if limit <= 0 || !sameInput(req, m.req) {
		return m.counter.CountTokens(ctx, req, limit)
	}
	m.mu.Lock()
	within, over := m.within, m.over
	m.mu.Unlock()
	switch {
	case within > 0 && within <= limit:
		return within, nil
	case over >= limit:
		return over + 1, nil
	}
	n, err := m.counter.CountTokens(ctx, req, limit)
	if err != nil {
		return n, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > limit {
		m.over = max(m.over, limit)
	} else if m.within == 0 || limit < m.within {
		m.within = limit
	}
	return n, nil
}

// sameInput reports whether a and b hold the same input: a stage in between may have replaced some.
func sameInput(a, b *llm.Request) bool {
	return a.System == b.System && sameSlice(a.Messages, b.Messages) && sameSlice(a.Tools, b.Tools) && a.Format == b.Format &&
		a.Model == b.Model && len(a.Extra) == len(b.Extra)
}

// sameSlice reports whether a and b are one slice.
func sameSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
