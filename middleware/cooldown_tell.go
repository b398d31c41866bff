package middleware

import (
	"context"
	"errors"
	"time"
)

// flush tells and asks the Store about what is marked. false: it could not, and the marks stay.
func (f *fleet) flush() bool {
	for {
		f.mu.Lock()
		todo := f.marked
		f.marked = map[*restCell]struct{}{}
		if len(todo) == 0 {
			f.release()
			f.mu.Unlock()
			return true
		}
		f.mu.Unlock()
		if !f.flushAll(todo) {
			f.mu.Lock()
			for c := range todo {
				f.marked[c] = struct{}{}
			}
			f.mu.Unlock()
			return false
		}
		f.report()
	}
}

// release ends the waits for nothing being marked. The caller holds mu.
func (f *fleet) release() {
	if !f.watching {
		return
	}
	for _, done := range f.syncs {
		close(done)
	}
	f.syncs = nil
}

// flushAll removes from todo what is done.
func (f *fleet) flushAll(todo map[*restCell]struct{}) bool {
	var reads []*restCell
	for c := range todo {
		select {
		case a := <-f.probes: // a call waits
			f.askProbe(a)
		default:
		}
		only, err := f.tellOf(c)
		if err != nil {
			return false
		}
		if only {
			reads = append(reads, c)
			continue
		}
		delete(todo, c)
	}
	for len(reads) > 0 {
		some := reads[:min(len(reads), readMost)]
		reads = reads[len(some):]
		if f.read(some) != nil {
			return false
		}
		for _, c := range some {
			delete(todo, c)
		}
	}
	return true
}

// do is one operation of the Store, within its limit.
func (f *fleet) do(op func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(f.ctx, f.limit)
	defer cancel()
	err := guarded(ctx, op)
	if f.ctx.Err() == nil {
		was := f.health.down()
		f.health.note(storeOps, err)
		if was && !f.health.down() { // much may have happened meanwhile
			f.rereadAll(true)
		}
	}
	return err
}

// tellOf tells the Store what it does not know of c, or reports that c is only to be read.
func (f *fleet) tellOf(c *restCell) (read bool, err error) {
	c.mu.Lock()
	st, freeing, read := c.state.Load(), c.shared.freeing, c.shared.reread
	c.mu.Unlock()
	var got SharedCooldown
	now := time.Now()
	switch {
	case st.tell == newsEnded || st.tell == newsCleared:
		err = f.do(func(ctx context.Context) (err error) {
			got, err = f.store.End(ctx, c.key, st.base, max(now.Sub(st.at), 0), st.tell == newsCleared)
			return err
		})
	case st.tell != newsNone:
		err = f.do(func(ctx context.Context) (err error) {
			got, err = f.store.Rest(ctx, c.key, st.report(now))
			return err
		})
	case freeing != "":
		err = f.do(func(ctx context.Context) (err error) {
			got, err = f.store.Free(ctx, c.key, freeing)
			return err
		})
		if err == nil {
			c.mu.Lock()
			if c.shared.freeing == freeing {
				c.shared.freeing = ""
			}
			c.mu.Unlock()
		}
	default:
		return read, nil
	}
	if err != nil {
		return false, err
	}
	c.adopt(&got, st, "")
	f.mark(c) // there may be more
	return false, nil
}

var errShortRead = errors.New("the store did not answer for all keys")

func (f *fleet) read(cells []*restCell) error {
	keys := make([]CooldownKey, len(cells))
	for i, c := range cells {
		keys[i] = c.key
		c.mu.Lock()
		c.shared.reread = false
		c.mu.Unlock()
	}
	var got []SharedCooldown
	err := f.do(func(ctx context.Context) (err error) {
		if got, err = f.store.Read(ctx, keys); err == nil && len(got) != len(keys) {
			err = errShortRead
		}
		return err
	})
	for i, c := range cells {
		if err != nil {
			c.mu.Lock()
			c.shared.reread = true
			c.mu.Unlock()
			continue
		}
		c.adopt(&got[i], nil, "")
	}
	return err
}

// askProbe asks the Store for the probe that a call wants to be.
func (f *fleet) askProbe(a *probeAsk) {
	defer close(a.done)
	c := a.cell
	st := c.state.Load()
	if !st.resting {
		a.heard = true // there is nothing to ask
		return
	}
	var got SharedCooldown
	err := f.do(func(ctx context.Context) (err error) {
		got, err = f.store.Probe(ctx, c.key, st.report(time.Now()), a.token, f.all.cfg.ProbeLease)
		return err
	})
	if a.heard = err == nil; a.heard {
		c.adopt(&got, st, a.token)
		f.report()
	}
}
