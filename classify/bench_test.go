package classify

import (
	"testing"
)

// BenchmarkError measures what a failure costs: every fixture once is one operation divided by their number.
func BenchmarkError(b *testing.B) {
	c := New()
	all := fixtures(b)
	ctx := b.Context()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		f := &all[i%len(all)]
		i++
		_ = c.Classify(ctx, f.failure())
	}
}

// BenchmarkTypical measures one common failure.
func BenchmarkTypical(b *testing.B) {
	c := New()
	all := fixtures(b)
	for i := range all {
		if all[i].Name == "openai exact header wins" {
			e := all[i].failure()
			b.ReportAllocs()
			for b.Loop() {
				_ = c.Error(e)
			}
			return
		}
	}
	b.Fatal("no such fixture")
}
