package llm_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// region: ask
func askBothWays(ctx context.Context, chat llm.Caller) error {
	req := &llm.Request{Messages: []llm.Message{llm.User("What does a circuit breaker do?")}}

	resp, err := chat.Call(ctx, req)
	if err != nil {
		return err
	}
	fmt.Printf("%s, from %s after %d calls\n", resp.Text(), resp.Deployment, resp.Calls())

	for delta, err := range llm.Stream(ctx, chat, req) {
		if err != nil {
			return err // whatever was printed before it stands, and err says that it is not the whole answer
		}
		fmt.Print(delta.Text)
	}
	return nil
}

// endregion

func ExampleStream() {
	backup := &llm.Deployment{Name: "backup", Caller: llmtest.Script(llmtest.Text("It trips."))}
	down := &llm.Deployment{Name: "primary", Caller: llmtest.Script(llmtest.Fail(llm.Unavailable))}
	chat := llm.New().Then(middleware.Fallback(middleware.FallbackConfig{}, down, backup))
	if err := askBothWays(context.Background(), chat); err != nil {
		fmt.Println(err)
	}
	// Output:
	// It trips., from backup after 2 calls
	// It trips.
}

func ExampleError() {
	limited := llmtest.Script(llmtest.Fail(llm.Quota))
	chat := llm.New().Then(&llm.Deployment{Name: "primary", Caller: limited})
	_, err := chat.Call(context.Background(), &llm.Request{Messages: []llm.Message{llm.User("Hello")}})
	if e, ok := errors.AsType[*llm.Error](err); ok {
		fmt.Println(e.Deployment, e.Class, e.Owner, len(e.Attempts), errors.Is(err, llm.Quota))
	}
	// Output: primary quota quota 1 true
}
