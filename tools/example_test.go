package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/tools"
)

func Example() {
	refund := tools.Tool{
		Spec: llm.Tool{
			Name: "refund", Description: "Pays an order back.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"}},"required":["order"]}`),
		},
		Effect: tools.Keyed, // the bank does the work of one key once
		Run: func(_ context.Context, c tools.Call) (tools.Result, error) {
			var args struct{ Order string }
			if err := c.Decode(&args); err != nil {
				return tools.Result{}, fmt.Errorf("%w: %w", tools.ErrNotDone, err)
			}
			if args.Order == "" {
				return tools.Failure("Which order?"), nil // which the model reads
			}
			fmt.Println("the bank pays", args.Order, "back") // with c.Key as the idempotency key
			return tools.Text("paid back"), nil
		},
	}
	executor := tools.New(tools.Config{Store: tools.NewMemory(), Tools: []tools.Tool{refund}}) // stores/sql keeps them for good

	model := llmtest.Script(
		llmtest.Step{Response: asks(`refund {"order":"A-7"}`)},
		llmtest.Text("Your money is on its way."),
	)
	ctx := context.Background()
	conversation := []llm.Message{llm.User("I want my money back for order A-7.")}
	for {
		resp, err := model.Call(ctx, &llm.Request{Messages: conversation, Tools: executor.Specs()})
		if err != nil {
			fmt.Println(err)
			return
		}
		if len(resp.ToolCalls()) == 0 {
			fmt.Println(resp.Text())
			return
		}
		turn := fmt.Sprint("conversation 12, message ", len(conversation))
		msg, err := executor.Run(ctx, turn, resp)
		if doubt, ok := errors.AsType[*tools.DoubtError](err); ok {
			fmt.Println("a person has to look at", doubt.Key)
			return
		} else if err != nil {
			fmt.Println(err)
			return
		}
		if _, err := executor.Run(ctx, turn, resp); err != nil { // repeated, it pays nothing
			fmt.Println(err)
		}
		conversation = append(conversation, llm.Message{Role: llm.RoleAssistant, Parts: resp.Parts}, msg)
		if err := executor.Acknowledge(ctx, turn); err != nil { // once the conversation is stored
			fmt.Println(err)
		}
	}
	// Output:
	// the bank pays A-7 back
	// Your money is on its way.
}
