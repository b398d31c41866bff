package tools_test

import (
	"fmt"
	"testing"

	"github.com/modelchain/llm/tools"
)

func BenchmarkRun(b *testing.B) {
	for _, effect := range []tools.Effect{tools.ReadOnly, tools.Keyed} {
		b.Run(effect.String(), func(b *testing.B) {
			var w world
			e := executor(w.tool("pay", effect))
			resp := asks(`pay {"to":"a","amount":12.5,"note":"for lunch"}`)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if _, err := e.Run(b.Context(), fmt.Sprint("turn ", n), resp); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("repeated", func(b *testing.B) {
		var w world
		e := executor(w.tool("pay", tools.Keyed))
		resp := asks(`pay {"to":"a","amount":12.5,"note":"for lunch"}`)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.Run(b.Context(), "turn", resp); err != nil {
				b.Fatal(err)
			}
		}
	})
}
