package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/tools"
)

// A bank pays refunds, and now and then does not say so.
type bank struct {
	mu   sync.Mutex
	paid map[string]int // cents by key
	lost bool           // the next answer gets lost
}

func (b *bank) pay(_ context.Context, c tools.Call) (tools.Result, error) {
	var args struct{ Order, Cents int }
	if err := c.Decode(&args); err != nil {
		return tools.Failure("the arguments are no order and cents"), nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid[c.Key] += args.Cents
	if b.lost {
		b.lost = false
		return tools.Result{}, errors.New("the connection to the bank broke")
	}
	return tools.Text(fmt.Sprintf("refunded %d cents of order %d", args.Cents, args.Order)), nil
}

// look is what the tool asks when nobody knows whether it paid.
func (b *bank) look(_ context.Context, c tools.Call) (tools.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cents, ok := b.paid[c.Key]; ok {
		return tools.Text(fmt.Sprintf("refunded %d cents", cents)), nil
	}
	return tools.Result{}, fmt.Errorf("the bank knows no such payment: %w", tools.ErrNotDone)
}

// refund lets the model ask for a tool with a side effect, and loses the answer of the bank after the money went out.
func (a *App) refund(ctx context.Context) error {
	if err := a.load(); err != nil {
		return err
	}
	b := &bank{paid: map[string]int{}, lost: true}
	executor := tools.New(tools.Config{Store: a.store.Tools(), Tools: []tools.Tool{{
		Spec: llm.Tool{Name: "refund", Description: "Pays money back.", Parameters: []byte(`{"type":"object"}`)},
		Run:  b.pay, Reconcile: b.look,
	}}})
	a.providers.Say([]llmtest.Turn{refundCall()}, nil)
	chat, err := a.set.Load().Caller(workflow)
	if err != nil {
		return err
	}
	resp, err := chat.Call(ctx, &llm.Request{
		Messages: []llm.Message{llm.User("I want my money back for order 17.")}, Tools: executor.Specs(),
	})
	if err != nil {
		return err
	}
	a.say("injected: the bank pays a refund and its answer is lost\n")
	const turn = "conversation-1/answer-1"
	_, failed := executor.Run(ctx, turn, resp)
	doubt, ok := errors.AsType[*tools.DoubtError](failed)
	if !ok {
		return fmt.Errorf("the loss was not noticed: %w", failed)
	}
	a.say("  first run → fail closed: nobody knows whether %s had its effect\n", doubt.Tool)
	for _, what := range []string{"the bank is asked, and not told to pay again", "what is on record"} {
		msg, err := executor.Run(ctx, turn, resp)
		if err != nil {
			return err
		}
		a.say("  run again → %s: %s\n", what, msg.Parts[0].Result.Parts[0].Text)
	}
	total := 0
	for _, cents := range b.paid {
		total += cents
	}
	a.say("  paid in all: %d cents\n\n", total)
	return executor.Acknowledge(ctx, turn)
}
