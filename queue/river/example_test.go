package riverqueue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	riverqueue "github.com/modelchain/llm/queue/river"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "queue")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	queue, err := riverqueue.Open(ctx, riverqueue.Config{DSN: filepath.Join(dir, "queue.db")})
	if err != nil {
		panic(err)
	}
	defer queue.Close()

	budget := middleware.BudgetConfig{Attempts: 3}
	support := llm.New(
		middleware.Queue(middleware.QueueConfig{Queue: queue, Workflow: "support", Base: time.Millisecond, Budget: budget}),
		middleware.EachBudget(budget),
	).Then(&llm.Deployment{
		Name:   "primary",
		Caller: llmtest.Script(llmtest.Fail(llm.Overloaded), llmtest.Text("within a week")), // an adapter, such as openai.New
	})

	_, err = support.Call(ctx, &llm.Request{Messages: []llm.Message{llm.User("When is it repaired?")}})
	receipt, ok := errors.AsType[*middleware.Receipt](err)
	if !ok {
		panic(err)
	}
	fmt.Println("queued, because the provider was", receipt.Cause.Class)

	worker, err := queue.Start(ctx, riverqueue.WorkerConfig{
		Callers: func(string) (llm.Caller, error) { return support, nil },
	})
	if err != nil {
		panic(err)
	}
	result, err := queue.Wait(ctx, receipt.ID)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: %s (%d attempts)\n", result.State, result.Response.Text(), result.Spent.Attempts)
	if err := worker.Stop(ctx); err != nil {
		panic(err)
	}
	// Output:
	// queued, because the provider was overloaded
	// answered: within a week (2 attempts)
}
