package sqlstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/tools"
)

// BenchmarkToolRun is the cost of a call beside what its tool does: three durable steps.
func BenchmarkToolRun(b *testing.B) {
	for name, relaxed := range map[string]bool{"durable": false, "relaxed": true} {
		s := mustOpen(b, sqlitePlace(b), Config{Relaxed: relaxed})
		e := tools.New(tools.Config{Store: s.Tools(), Tools: []tools.Tool{{Spec: llm.Tool{Name: "pay"}, Effect: tools.Keyed,
			Run: func(context.Context, tools.Call) (tools.Result, error) { return tools.Text("paid"), nil }}}})
		var n atomic.Int64
		run := func(b *testing.B, turn string) {
			if _, err := e.Run(b.Context(), turn, toolAnswer("pay")); err != nil {
				b.Error(err)
			}
		}
		b.Run("sqlite/"+name+"/one at a time", func(b *testing.B) {
			for b.Loop() {
				run(b, fmt.Sprint("turn ", n.Add(1)))
			}
		})
		b.Run("sqlite/"+name+"/64 at once", func(b *testing.B) {
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					run(b, fmt.Sprint("turn ", n.Add(1)))
				}
			})
		})
		b.Run("sqlite/"+name+"/repeated", func(b *testing.B) {
			for b.Loop() {
				run(b, "turn")
			}
		})
	}
}
