package tools

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Memory is a [Store] that forgets everything when the process ends: for tests, and for single runs that are not resumed.
type Memory struct {
	mu      sync.Mutex
	records map[string]*kept
}

type kept struct {
	Record
	until time.Time
}

func (k *kept) now(t time.Time) Record {
	r := k.Record
	r.Held = k.until.After(t)
	r.Result = slices.Clone(r.Result)
	return r
}

var _ Store = (*Memory)(nil)

// NewMemory is a Memory without records.
func NewMemory() *Memory { return &Memory{records: map[string]*kept{}} }

// Claim makes or takes over a record.
func (m *Memory) Claim(ctx context.Context, r Record, lease time.Duration) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	k := m.records[r.Key]
	if k == nil {
		r.State, r.Doubt, r.Result, r.Created, r.Changed = Requested, "", nil, now, now
		k = &kept{Record: r, until: now.Add(lease)}
		m.records[r.Key] = k
	} else if !k.State.Over() && !k.until.After(now) {
		k.Owner, k.Changed, k.until = r.Owner, now, now.Add(lease)
	}
	return k.now(now), nil
}

// Move takes a step.
func (m *Memory) Move(ctx context.Context, mv Move) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.records[mv.Key]
	if k == nil || mv.Owner == "" || k.Owner != mv.Owner || !slices.Contains(mv.To.From(), k.State) {
		return ErrLost
	}
	if k.State == Committed {
		return nil
	}
	now := time.Now()
	if k.State != mv.To || mv.Lease == 0 {
		k.Changed = now
	}
	k.State, k.Doubt, k.Result, k.until = mv.To, mv.Doubt, slices.Clone(mv.Result), now.Add(mv.Lease)
	if mv.Lease == 0 && mv.To != Committed {
		k.Owner = ""
	}
	return nil
}

// Get finds a record.
func (m *Memory) Get(ctx context.Context, key string) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.records[key]
	if k == nil {
		return Record{}, ErrNoRecord
	}
	return k.now(time.Now()), nil
}

// Acknowledge marks the committed records of a turn.
func (m *Memory) Acknowledge(ctx context.Context, turn string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.records {
		if k.Turn == turn && k.State == Committed {
			k.State, k.Changed = Acknowledged, time.Now()
		}
	}
	return nil
}

// Doubtful lists what nobody knows the outcome of.
func (m *Memory) Doubtful(ctx context.Context, limit int) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var out []Record
	for _, k := range m.records {
		if k.State == Started && !k.until.After(now) {
			out = append(out, k.now(now))
		}
	}
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Key, b.Key))
	})
	return out[:min(len(out), max(limit, 0))], nil
}

// Prune deletes old records.
func (m *Memory) Prune(ctx context.Context, age time.Duration) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, n := time.Now(), 0
	for key, k := range m.records {
		free := k.State == Acknowledged || k.State == Requested && !k.until.After(now)
		if free && k.Changed.Before(now.Add(-age)) {
			delete(m.records, key)
			n++
		}
	}
	return n, nil
}
