package sqlstore

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// BenchmarkJournal is durable attempts with 64 concurrent calls: each is begun and settled, and both are acknowledged when
// they are on the disk.
func BenchmarkJournal(b *testing.B) {
	for name, make := range map[string]func(testing.TB) place{"sqlite": sqlitePlace, "postgres": postgresPlace} {
		b.Run(name, func(b *testing.B) {
			j := mustOpen(b, make(b), Config{}).Journal()
			var next atomic.Int64
			b.ResetTimer() // the server is started first
			concurrently(64, func() {
				for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
					a := attemptRow(n)
					if err := j.Begin(b.Context(), a); err != nil {
						b.Error(err)
					}
					a.State, a.Usage = middleware.JournalAnswered, llm.Usage{Input: 100, Output: 20}
					if err := j.Settle(b.Context(), a); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "attempts/s")
		})
	}
}

// BenchmarkJournalStage is whole calls through the stage: a row each of call and attempt, all of them acknowledged.
func BenchmarkJournalStage(b *testing.B) {
	for name, make := range map[string]func(testing.TB) place{"sqlite": sqlitePlace, "postgres": postgresPlace} {
		b.Run(name, func(b *testing.B) {
			s := mustOpen(b, make(b), Config{})
			chat := llm.New(middleware.Journal(middleware.JournalConfig{Store: s.Journal(), Workflow: "w"})).
				Then(&llm.Deployment{Name: "a", Caller: llm.CallerFunc(func(context.Context, *llm.Request) (*llm.Response, error) {
					return &llm.Response{Parts: []llm.Part{llm.Text("x")}}, nil
				})})
			var next atomic.Int64
			b.ResetTimer() // the server is started first
			concurrently(64, func() {
				for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
					if _, err := chat.Call(b.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}}); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

func concurrently(n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	all.Wait()
}
