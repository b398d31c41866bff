package middleware_test

import (
	"context"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/tokens"
)

// routerConversation is a request of n messages of size bytes.
func routerConversation(n, size int) *llm.Request {
	req := &llm.Request{}
	text := strings.Repeat("The order 4711 has not arrived yet; what can we do? ", size/52+1)[:size]
	for range n {
		req.Messages = append(req.Messages, llm.User(text))
	}
	return req
}

// routerNoop is a router around nothing, so that what is measured is its own.
func routerNoop() (llm.Caller, *llm.Request) {
	resp := &llm.Response{Usage: llm.Usage{Input: 1}}
	noop := &routerLeaf{d: &llm.Deployment{Name: "normal", Window: 128_000}, resp: resp}
	return middleware.TokenRouter(middleware.TokenRouterConfig{Counter: tokens.For("gpt-4o"), Normal: noop}), routerConversation(100, 1024)
}

// routerLeaf shows a deployment, but answers itself.
type routerLeaf struct {
	d    *llm.Deployment
	resp *llm.Response
}

func (l *routerLeaf) Call(context.Context, *llm.Request) (*llm.Response, error) { return l.resp, nil }
func (l *routerLeaf) Describe() llm.Node                                        { return llm.Node{Deployment: l.d} }

func TestTokenRouterAllocatesNothingForWhatFits(t *testing.T) {
	router, req := routerNoop()
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := router.Call(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

// The router alone: 100 messages of 1 KB fit a window of 128k tokens by their bytes.
func BenchmarkTokenRouter100Messages100KB(b *testing.B) {
	router, req := routerNoop()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := router.Call(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// 400 KB, some 100k tokens, have to be counted.
func BenchmarkTokenRouter100Messages400KB(b *testing.B) {
	router, _ := routerNoop()
	req := routerConversation(100, 4*1024)
	if _, err := router.Call(b.Context(), req); err != nil { // loads the vocabulary
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := router.Call(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
