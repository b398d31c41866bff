package contract_test

import (
	"fmt"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/policy/contract"
)

func Example() {
	support := contract.Contract{
		Input:    contract.Input{WindowTokens: 100_000},
		Output:   contract.Output{RequiredFields: []string{"answer", "ticket.id"}},
		Data:     contract.Data{MaxRetentionDays: new(0)},
		Approval: contract.Approval{Workflow: "support-answer", Reasons: []string{"provider_overload"}},
	}
	backup := contract.Profile{
		Input:  contract.InputProfile{WindowTokens: 200_000},
		Output: contract.OutputProfile{JSON: true},
		Approvals: []contract.Approved{{
			Workflow: "support-answer", Reasons: []string{"provider_overload"}, By: "ada",
			Until: contract.Time(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)),
		}},
	}
	for _, m := range support.Check(backup, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(m)
	}
	fmt.Println("approved until", contract.Time(contract.Expires(support, backup)))

	check, err := contract.Validator(support.Output, nil) // for middleware.Validate(check)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(check(&llm.Request{}, &llm.Response{Parts: []llm.Part{llm.Text(`{"answer": "It is on its way."}`)}}))
	// Output:
	// data.max_retention_days: the workflow demands at most 0 days, the route states nothing; if it is so, state data.retention_days in the profile of the route, else choose another route
	// approved until 2027-01-01
	// output.required_fields: the field "ticket.id" is missing or empty
}
