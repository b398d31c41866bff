package main

import (
	"log/slog"
	"sync"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

// quiet keeps the log of the gateway out of what the example prints.
var quiet = slog.New(slog.DiscardHandler)

// Providers are the primary and the backup, on loopback, which say what they are told to.
type Providers struct {
	*llmtest.Provider
	mu    sync.Mutex
	turns map[string][]llmtest.Turn // by model; the last one is repeated
}

// StartProviders starts them.
func StartProviders() (*Providers, error) {
	p := &Providers{}
	route := func(model string) llmtest.Route {
		return llmtest.Route{Model: model, Func: func(llmtest.Exchange, int) llmtest.Turn { return p.next(model) }}
	}
	var err error
	p.Provider, err = llmtest.StartProvider("127.0.0.1:0", llmtest.ProviderConfig{
		Routes: []llmtest.Route{route("primary-model"), route("backup-model")},
	})
	return p, err
}

// Say sets what comes next.
func (p *Providers) Say(primary, backup []llmtest.Turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns = map[string][]llmtest.Turn{"primary-model": primary, "backup-model": backup}
}

func (p *Providers) next(model string) llmtest.Turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	turns := p.turns[model]
	switch len(turns) {
	case 0:
		return llmtest.Turn{}
	case 1:
		return turns[0]
	}
	p.turns[model] = turns[1:]
	return turns[0]
}

func scenarios() []Scenario {
	answer := func(text string) llmtest.Turn { return llmtest.Turn{Text: `{"answer": "` + text + `"}`} }
	ok, backup := answer("It arrives on Monday."), answer("The backup says: Monday.")
	do := func(turns ...llmtest.Turn) []llmtest.Turn { return turns }
	limited := func(wait time.Duration) llmtest.Turn {
		return llmtest.Turn{Do: llmtest.DoRateLimited, RetryAfter: wait}
	}
	down := do(llmtest.Turn{Do: llmtest.DoUnavailable})
	pieces := []string{`{"answer": "`, "It ", "arrives ", "on ", "Mon", `day."}`}
	return []Scenario{
		{Injected: "nothing", Primary: do(ok)},
		{Injected: "a rate limit that asks for 50 ms", Primary: do(limited(50*time.Millisecond), ok)},
		{Injected: "a rate limit that asks for a minute", Primary: do(limited(time.Minute)), Backup: do(backup)},
		{Injected: "an overloaded primary", Primary: do(llmtest.Turn{Do: llmtest.DoOverloaded}), Backup: do(backup)},
		{Injected: "an answer that lacks the field answer", Primary: do(llmtest.Turn{Text: `{"reply": "Monday"}`}), Backup: do(backup)},
		{
			Injected: "an empty account, until later", Later: do(ok),
			Primary: do(llmtest.Turn{Do: llmtest.DoQuota, RetryAfter: time.Second}),
		},
		{Injected: "an outage of both providers", Primary: down, Backup: down},
		{Injected: "a refused key", Primary: do(llmtest.Turn{Do: llmtest.DoAuth}), Backup: do(backup)},
		{Injected: "a malformed tool schema", Primary: do(llmtest.Turn{Do: llmtest.DoToolSchema}), Backup: do(backup)},
		{
			Injected: "a refusal", Backup: do(backup),
			Primary: do(llmtest.Turn{Do: llmtest.DoRefuse, Text: "I cannot help with that."}),
		},
		{
			Injected: "a stream that breaks after it was seen", Streamed: true, Backup: do(backup),
			Primary: do(llmtest.Turn{Do: llmtest.DoCut, At: 4, Pieces: pieces}),
		},
	}
}

// refundCall is an answer in which the model asks for a refund.
func refundCall() llmtest.Turn {
	return llmtest.Turn{Calls: []llm.ToolCall{{ID: "call_1", Name: "refund", Arguments: []byte(`{"order": 17, "cents": 1250}`)}}}
}
