package contract

import (
	"math"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

func TestCapabilitiesAreWhatIsStated(t *testing.T) {
	for _, k := range []struct {
		name string
		p    Profile
		want llm.Capabilities
	}{
		{"nothing", Profile{Data: DataProfile{Regions: []string{"eu"}}}, 0},
		{"a window", Profile{Input: InputProfile{WindowTokens: 1}}, llm.CanText},
		{"a schema told in words", Profile{Output: OutputProfile{JSONSchema: SchemaPrompted}}, llm.CanText},
		{"request ids", Profile{Operation: OperationProfile{RequestIDs: true}}, llm.CanText},
		{
			"all", Profile{
				Input:     InputProfile{Images: true, Files: true, Audio: true, Prefill: true},
				Output:    OutputProfile{JSON: true, JSONSchema: SchemaEnforced, Reasoning: true},
				Tools:     ToolsProfile{Names: []string{"refund"}},
				Operation: OperationProfile{Streaming: true},
			},
			llm.CanText | llm.CanImages | llm.CanFiles | llm.CanAudio | llm.CanPrefill | llm.CanJSON | llm.CanSchema | llm.CanReasoning |
				llm.CanTools | llm.CanStream,
		},
	} {
		if got := k.p.Capabilities(); got != k.want {
			t.Errorf("%s: %v, want %v", k.name, got, k.want)
		}
	}
}

// sayAll is all of p, "" for none.
func sayAll(p []*Problem) string {
	var all []string
	for _, one := range p {
		all = append(all, one.Error())
	}
	return strings.Join(all, "\n")
}

func TestContradictionsAreFound(t *testing.T) {
	d := llm.Deployment{
		Name: "small", Provider: "openai", Model: "m", Window: 8192, MaxOutput: 100, Has: llm.CanText | llm.CanImages,
		Price: llm.Price{Input: 1, Output: 2, CacheWrite: 1.25},
	}
	for _, k := range []struct {
		p    Profile
		want string // "": none
	}{
		{Profile{}, ""},
		{Profile{Provider: "openai", Model: "m", Input: InputProfile{WindowTokens: 8192, Images: true}, Output: OutputProfile{MaxTokens: 100}}, ""},
		{Profile{Economics: EconomicsProfile{InputUSDPerMillion: new(1.25), OutputUSDPerMillion: new(2.0)}}, ""},
		{Profile{Provider: "azure"}, "provider is stated as \"azure\", and the deployment \"small\" has \"openai\""},
		{Profile{Model: "n"}, "model is stated as "},
		{Profile{Input: InputProfile{WindowTokens: 200_000}}, "input.window_tokens is stated as 200000, and the deployment \"small\" has 8192"},
		{Profile{Output: OutputProfile{MaxTokens: 101}}, "output.max_tokens is stated as "},
		{Profile{Input: InputProfile{Files: true}}, "input.files is stated as files, and the deployment \"small\" has text+images"},
		{Profile{Operation: OperationProfile{Streaming: true}}, "operation.streaming is stated as "},
		{Profile{Economics: EconomicsProfile{InputUSDPerMillion: new(1.0)}}, "economics.input_usd_per_million is stated as 1, and the deployment \"small\" has 1.25"},
		{Profile{Economics: EconomicsProfile{OutputUSDPerMillion: new(math.NaN())}}, "economics.output_usd_per_million is stated as "},
	} {
		if got := sayAll(k.p.Contradicts(&d)); !strings.HasPrefix(got, k.want) || k.want == "" && got != "" {
			t.Errorf("got %q, want %q", got, k.want)
		}
		if got := k.p.Contradicts(&llm.Deployment{Name: "unknown"}); got != nil {
			t.Errorf("what is not known contradicts: %v", sayAll(got))
		}
	}
}

func TestNonsenseInAContractIsSaid(t *testing.T) {
	if got := (Contract{}).Valid(); got != nil {
		t.Errorf("the zero value: %v", sayAll(got))
	}
	for want, c := range map[string]Contract{
		"input.window_tokens is -1":               {Input: Input{WindowTokens: -1}},
		"input.locales is an empty list":          {Input: Input{Locales: []string{}}},
		"output.json_schema and json_schema_file": {Output: Output{JSONSchema: true, JSONSchemaFile: "a"}},
		"output.json_schema_enforced has no":      {Output: Output{JSONSchemaEnforced: true}},
		"output.allow_fence is about JSON":        {Output: Output{AllowFence: true}},
		"output.required_fields has \"a..b\"":     {Output: Output{RequiredFields: []string{"a..b"}}},
		"output.refusal is \"loud\"":              {Output: Output{Refusal: "loud"}},
		"output.finish_reasons is \"stop\"":       {Output: Output{FinishReasons: []llm.StopReason{"stop"}}},
		"output.truncation is \"ok\"":             {Output: Output{Truncation: "ok"}},
		"output.truncation is refused while":      {Output: Output{Truncation: TruncationRefused, FinishReasons: []llm.StopReason{llm.StopLength}}},
		"output.truncation is accepted while":     {Output: Output{Truncation: TruncationAccepted, FinishReasons: []llm.StopReason{llm.StopEnd}}},
		"output.citations has neither":            {Output: Output{Citations: Citations{Min: 1}}},
		"output.citations.marker is no pattern":   {Output: Output{Citations: Citations{Marker: "("}}},
		"output.min_chars is above max_chars":     {Output: Output{MinChars: 2, MaxChars: 1}},
		"data.max_retention_days is below":        {Data: Data{MaxRetentionDays: new(-1)}},
		"data.regions is an empty list":           {Data: Data{Regions: []string{}}},
		"data.tenant_isolation is \"perfect\"":    {Data: Data{TenantIsolation: "perfect"}},
		"operation.max_latency_p95_ms is -1":      {Operation: Operation{MaxLatencyP95MS: -1}},
		"economics.max_call_usd is not an amount": {Economics: Economics{MaxCallUSD: new(math.NaN())}},
		"quality.suite is missing":                {Quality: Quality{MinScore: 1}},
		"quality.min_score is NaN":                {Quality: Quality{Suite: "s", MinScore: math.NaN()}},
		"quality.max_age_days is -1":              {Quality: Quality{Suite: "s", MaxAgeDays: -1}},
		"approval.workflow is missing":            {Approval: Approval{Reasons: []string{"quota"}}},
		"approval.reasons has an empty word":      {Approval: Approval{Workflow: "w", Reasons: []string{""}}},
	} {
		if got := sayAll(c.Valid()); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNonsenseInAProfileIsSaid(t *testing.T) {
	whole := Profile{
		Evaluations: []Evaluation{{Suite: "s", Date: on(1, 1)}},
		Approvals:   []Approved{{Workflow: "w", Reasons: []string{"quota"}, By: "ada", Until: on(1, 1)}},
	}
	if got := whole.Valid(); got != nil {
		t.Errorf("a whole one: %v", sayAll(got))
	}
	for want, p := range map[string]Profile{
		"input.window_tokens is -1":                                      {Input: InputProfile{WindowTokens: -1}},
		"output.json_schema is \"yes\"":                                  {Output: OutputProfile{JSONSchema: "yes"}},
		"output.refusal is \"x\"":                                        {Output: OutputProfile{Refusal: "x"}},
		"output.truncation is \"x\"":                                     {Output: OutputProfile{Truncation: "x"}},
		"data.retention_days is below":                                   {Data: DataProfile{RetentionDays: new(-1)}},
		"data.tenant_isolation is \"x\"":                                 {Data: DataProfile{TenantIsolation: "x"}},
		"economics.call_usd is not an amount":                            {Economics: EconomicsProfile{CallUSD: new(-1.0)}},
		"evaluations.0 has no suite":                                     {Evaluations: []Evaluation{{Date: on(1, 1)}}},
		"evaluations.0 has a score that is none":                         {Evaluations: []Evaluation{{Suite: "s", Date: on(1, 1), Score: math.NaN()}}},
		"evaluations.0 has no date":                                      {Evaluations: []Evaluation{{Suite: "s"}}},
		"approvals.0 is not whole; give workflow, reasons, by and until": {Approvals: []Approved{{Workflow: "w", Reasons: []string{"x"}, By: "ada"}}},
		"approvals.0 is not whole":                                       {Approvals: []Approved{{Workflow: "w"}}},
	} {
		if got := sayAll(p.Valid()); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
