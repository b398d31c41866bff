package llmtest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
)

// heard is a test that keeps what fails it.
type heard struct {
	testing.TB
	said, logged []string
}

func (h *heard) Helper() {}

func (h *heard) Errorf(format string, args ...any) {
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

func (h *heard) Error(args ...any) { h.said = append(h.said, fmt.Sprint(args...)) }

func TestExpectationsHoldOrSayInASentenceWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := func(m *Model, text string) {
			req := &llm.Request{Messages: []llm.Message{llm.User(text)}, Labels: map[string]string{"mail": "a@b"}, Sink: func(llm.Delta) error {
				return nil
			}}
			_, _ = m.Call(t.Context(), req) // how it ends is in the script
		}
		m := Script(Step{Delay: time.Second, Err: llm.Unavailable}, Text("ok"))
		asks(m, "one")
		Advance(2 * time.Second)
		asks(m, "one two")
		beside := Script(Step{Hang: true, Deaf: true})
		done := make(chan struct{})
		go func() {
			defer close(done)
			asks(beside, "three")
		}()
		synctest.Wait()

		h := &heard{TB: t}
		Expect(h, m).WasCalled(2).WaitedAtLeast(2 * time.Second).WaitedAtMost(2 * time.Second).OneAtATime().NotAfterOutput().
			WasTold("one").WasNotTold("three")
		if len(h.said) > 0 {
			t.Errorf("what is so was denied: %q", h.said)
		}
		Expect(h, m).WasCalled(3)
		Expect(h, Script()).WasCalled(1)
		Expect(h, m).WaitedAtLeast(3 * time.Second)
		Expect(h, m).WaitedAtMost(time.Second)
		Expect(h, m).WasTold("two")
		Expect(h, Script()).WasTold("two")
		Expect(h, m).WasNotTold("two")
		Expect(h, beside).WasNotTold("a@b")
		Expect(h, m, beside).NotAfterOutput()
		asks(m, "four")
		Expect(h, beside, m).OneAtATime()
		want := []string{
			"want 3 calls, got 2 calls, after 0s, 3s", "want 1 call, got none",
			"want a wait of at least 3s before call 2, got 2s", "want a wait of at most 1s before call 2, got 2s",
			`want call 1 to say "two", it says`, `want calls that say "two", got none`,
			`want no call that says "two", but call 2 does`, `want no call that says "a@b", but call 1 does`,
			"want no call after output, but call 3 began 0s after call 2 had handed out its first piece",
			"want one call at a time, but call",
		}
		if len(h.said) != len(want) {
			t.Fatalf("%d sentences: %q", len(h.said), h.said)
		}
		for i := range want {
			if !strings.HasPrefix(h.said[i], want[i]) {
				t.Errorf("said %q, want %q", h.said[i], want[i])
			}
		}
		beside.Release()
		<-done
	})
}
