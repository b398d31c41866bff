package middleware_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// taking is a queue that takes everything.
type taking struct{}

func (taking) Enqueue(_ context.Context, job *middleware.Job) (*middleware.Receipt, error) {
	return &middleware.Receipt{ID: "1", Workflow: job.Workflow, NotBefore: job.NotBefore}, nil
}

// Every stage and combinator keeps the contract, with all that it may do beyond passing calls on named here.
func TestStagesKeepTheContract(t *testing.T) {
	const anyhow = llmtest.MayRepeat | llmtest.MayReplaceAnswer
	quiet := slog.New(slog.DiscardHandler)
	for name, cfg := range map[string]llmtest.StageConfig{
		"attempt_timeout": {New: func() llm.Stage { return middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}) }},
		"attempt_timeout of streams": {New: func() llm.Stage {
			return middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{Total: time.Minute, FirstToken: 20 * time.Second, Idle: 20 * time.Second})
		}},
		"budget of each call": {New: func() llm.Stage {
			return middleware.EachBudget(middleware.BudgetConfig{Attempts: 3, Elapsed: time.Minute})
		}},
		"budget": {New: func() llm.Stage {
			return middleware.NewBudget(middleware.BudgetConfig{Attempts: 40, Elapsed: time.Minute}).Stage()
		}, Claims: llmtest.MayRefuse | llmtest.MayShare},
		"classify": {New: func() llm.Stage { return middleware.Classify(middleware.ClassifyConfig{Logger: quiet}) }},
		"commit":   {New: func() llm.Stage { return middleware.Commit(middleware.CommitConfig{}) }, Claims: llmtest.MayHoldBack},
		"commit of two deltas": {New: func() llm.Stage {
			return middleware.Commit(middleware.CommitConfig{Deltas: 2})
		}, Claims: llmtest.MayHoldBack},
		"commit of all": {New: func() llm.Stage {
			return middleware.Commit(middleware.CommitConfig{Whole: true})
		}, Claims: llmtest.MayHoldBack},
		"cooldown": {New: func() llm.Stage {
			return middleware.NewCooldowns(middleware.CooldownConfig{}).Stage()
		}, Claims: llmtest.MayRefuse},
		"deadline": {New: func() llm.Stage { return middleware.Deadline(middleware.DeadlineConfig{}) }},
		"degrade": {New: func() llm.Stage {
			return middleware.Degrade(middleware.DegradeConfig{
				LastGood: middleware.NewLastGood(middleware.LastGoodConfig{}), Answer: middleware.StandIn("Come back in {{wait}}."),
			})
		}, Claims: llmtest.MayReplaceAnswer},
		"interrupt": {New: func() llm.Stage { return middleware.Interrupt(middleware.InterruptConfig{}) }},
		"interrupt with a notice": {New: func() llm.Stage {
			return middleware.Interrupt(middleware.InterruptConfig{Notice: "It broke off."})
		}},
		"interrupt that continues": {Combine: func(first, second llm.Caller) llm.Caller {
			return middleware.Interrupt(middleware.InterruptConfig{Continue: []llm.Caller{second}}).Wrap(first)
		}, Claims: llmtest.MayContinue | llmtest.MayChangeRequest},
		"journal": {New: func() llm.Stage {
			return middleware.Journal(middleware.JournalConfig{Store: &journalBook{}, Workflow: "support", Logger: quiet})
		}},
		"queue": {New: func() llm.Stage { return middleware.Queue(middleware.QueueConfig{Queue: taking{}}) }},
		"retry": {New: func() llm.Stage { return middleware.Retry(middleware.RetryConfig{}) }, Claims: llmtest.MayRepeat},
		"telemetry": {New: func() llm.Stage {
			return middleware.Telemetry(middleware.TelemetryConfig{Logger: quiet})
		}},
		"telemetry that speaks": {New: func() llm.Stage {
			return middleware.Telemetry(middleware.TelemetryConfig{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Content: true})
		}},
		"validate": {New: func() llm.Stage {
			return middleware.Validate(func(*llm.Request, *llm.Response) error { return nil })
		}},
		"fallback of one": {Combine: func(first, _ llm.Caller) llm.Caller {
			return middleware.Fallback(middleware.FallbackConfig{}, first)
		}},
		"fallback": {Combine: func(first, second llm.Caller) llm.Caller {
			return middleware.Fallback(middleware.FallbackConfig{}, first, second)
		}, Claims: anyhow},
		"hedge": {Combine: func(first, second llm.Caller) llm.Caller {
			return middleware.Hedge(middleware.HedgeConfig{Delay: 100 * time.Millisecond, Share: 1}, first, second)
		}, Claims: anyhow | llmtest.MayCallBeside},
		"token router": {Combine: func(first, second llm.Caller) llm.Caller {
			return middleware.TokenRouter(middleware.TokenRouterConfig{Normal: first, Long: second})
		}, Claims: anyhow},
		"an onion": {Combine: func(first, second llm.Caller) llm.Caller {
			each := llm.New(middleware.NewCooldowns(middleware.CooldownConfig{}).Stage(), middleware.Retry(middleware.RetryConfig{}),
				middleware.Commit(middleware.CommitConfig{Deltas: 2}), middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}),
				middleware.Classify(middleware.ClassifyConfig{Logger: quiet}))
			return llm.New(middleware.Telemetry(middleware.TelemetryConfig{Logger: quiet}), middleware.EachBudget(middleware.BudgetConfig{
				Attempts: 20,
			}), middleware.Deadline(middleware.DeadlineConfig{}), middleware.Interrupt(middleware.InterruptConfig{})).Then(
				middleware.Fallback(middleware.FallbackConfig{}, each.Then(first), each.Then(second)))
		}, Claims: anyhow | llmtest.MayRefuse | llmtest.MayHoldBack},
	} {
		t.Run(name, func(t *testing.T) { llmtest.TestStage(t, cfg) })
	}
}
