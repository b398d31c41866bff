package middleware

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

// Between looking whether a probe is due and taking it, another call may have taken it: a race that no test can arrange
// from outside.
func TestCooldownGivesAProbeThatIsDueToOneTakerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCooldowns(CooldownConfig{}).cell(Itself, "a")
		if gen, id, ok := c.take(time.Now(), 0); gen != 0 || id != 0 || !ok {
			t.Errorf("take of what serves gives %d, %d, %v; want nothing to probe", gen, id, ok)
		}
		c.fail(0, 0, &llm.Error{Class: llm.Unavailable}, false)
		if _, _, ok := c.take(time.Now(), 0); ok {
			t.Error("a probe was taken while it rests")
		}
		llmtest.Advance(time.Minute)
		gen, id, ok := c.take(time.Now(), 0)
		if gen != 1 || id == 0 || !ok {
			t.Errorf("take gives %d, %d, %v; want the probe of the first rest", gen, id, ok)
		}
		if _, _, again := c.take(time.Now(), 0); again {
			t.Error("two calls took the same probe")
		}
		c.free(gen, id)
		if _, next, again := c.take(time.Now(), 0); !again || next == id {
			t.Errorf("take after free gives %d, %v; want another probe", next, again)
		}
	})
}

// A stage that was built, used and dropped must not be held for ever.
func TestCooldownForgetsAPrivateRestThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCooldowns(CooldownConfig{})
		chat := c.Stage().Wrap(llmtest.Script(llmtest.Fail(llm.Unavailable), llmtest.Text("back")))
		for _, held := range []int{1, 0} {
			_, _ = chat.Call(t.Context(), &llm.Request{Messages: []llm.Message{llm.User("hi")}})
			if len(c.private) != held {
				t.Errorf("%d private rests are held, want %d", len(c.private), held)
			}
			llmtest.Advance(time.Minute)
		}
	})
}
