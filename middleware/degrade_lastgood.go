package middleware

import (
	lru "container/list"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/modelchain/llm"
)

// LastGoodConfig sets [NewLastGood].
type LastGoodConfig struct {
	// Entries is how many answers are kept; the one that was not needed for longest goes first. 0: 1000.
	Entries int
	// MaxAge is how old an answer may be. 0: 1 h.
	MaxAge time.Duration
	// Key tells which requests are the same question; "" is none, and its answer is not kept. nil: those that are equal in every
	// field that is sent, and in their Labels, so that tenants told apart by a label share nothing.
	Key func(*llm.Request) string
}

// LastGood keeps the last good answers for [Degrade], in memory: whole ones, no refusals and none with tool calls, which may
// not be done twice. What one call consumed and was known as (Usage, RequestID, Status) is not kept with its answer. It is safe
// for concurrent use and may be shared by chains that answer alike.
type LastGood struct {
	cfg LastGoodConfig

	mu      sync.Mutex
	entries map[string]*lru.Element
	order   *lru.List // of *goodAnswer, the newest first
}

type goodAnswer struct {
	key  string
	resp *llm.Response
	at   time.Time
}

// NewLastGood is an empty LastGood. It panics on negative settings.
func NewLastGood(cfg LastGoodConfig) *LastGood {
	if cfg.Entries < 0 {
		panic(fmt.Sprintf("llm/middleware: LastGood: Entries is %d; use 0 for 1000", cfg.Entries))
	}
	if cfg.Entries == 0 {
		cfg.Entries = 1000
	}
	cfg.MaxAge = durationOr("LastGood", "MaxAge", cfg.MaxAge, time.Hour)
	if cfg.Key == nil {
		cfg.Key = sameRequest
	}
	return &LastGood{cfg: cfg, entries: map[string]*lru.Element{}, order: lru.New()}
}

// String is its size and its bounds.
func (g *LastGood) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Sprintf("%d of %d answers up to %v old", g.order.Len(), g.cfg.Entries, g.cfg.MaxAge)
}

// sameRequest is a digest of all that is sent. "": there is something in it that has no JSON.
func sameRequest(r *llm.Request) string {
	data, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return string(sum[:])
}

func (g *LastGood) keep(r *llm.Request, resp *llm.Response) {
	if g == nil || resp == nil || resp.Refused() || resp.Degraded || resp.Stop == llm.StopLength || len(resp.ToolCalls()) > 0 {
		return
	}
	key := g.cfg.Key(r)
	if key == "" {
		return
	}
	kept := resp.Clone()
	kept.Usage, kept.RequestID, kept.Status, kept.Continued, kept.Attempts = llm.Usage{}, "", 0, false, nil
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[key]; e != nil {
		g.order.Remove(e)
	}
	g.entries[key] = g.order.PushFront(&goodAnswer{key, kept, time.Now()})
	if g.order.Len() > g.cfg.Entries {
		g.drop(g.order.Back())
	}
}

func (g *LastGood) drop(e *lru.Element) {
	if a, ok := g.order.Remove(e).(*goodAnswer); ok {
		delete(g.entries, a.key)
	}
}

// of is the last good answer to r, which is not to be written to. nil: none.
func (g *LastGood) of(r *llm.Request) *llm.Response {
	if g == nil {
		return nil
	}
	key := g.cfg.Key(r)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[key]
	if e == nil {
		return nil
	}
	a, _ := e.Value.(*goodAnswer)
	if time.Since(a.at) > g.cfg.MaxAge {
		g.drop(e)
		return nil
	}
	g.order.MoveToFront(e)
	return a.resp
}
