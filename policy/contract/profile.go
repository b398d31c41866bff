package contract

import (
	"fmt"
	"time"

	"github.com/modelchain/llm"
)

// A Profile is what a route states it is, and what it passed. The zero value of an item states nothing.
type Profile struct {
	// Provider and Model are what was looked at: all else is stated of them. "": not stated.
	Provider string `yaml:"provider" json:"provider,omitzero"`
	Model    string `yaml:"model" json:"model,omitzero"`
	// Input is what the route takes in.
	Input InputProfile `yaml:"input" json:"input,omitzero"`
	// Output is what it can promise of its answers.
	Output OutputProfile `yaml:"output" json:"output,omitzero"`
	// Tools is what it does with tools.
	Tools ToolsProfile `yaml:"tools" json:"tools,omitzero"`
	// Safety is what stands between the model and the user.
	Safety SafetyProfile `yaml:"safety" json:"safety,omitzero"`
	// Data is where the data goes and how long it stays.
	Data DataProfile `yaml:"data" json:"data,omitzero"`
	// Operation is how it runs.
	Operation OperationProfile `yaml:"operation" json:"operation,omitzero"`
	// Economics is what it costs and whose quota it uses.
	Economics EconomicsProfile `yaml:"economics" json:"economics,omitzero"`
	// Evaluations are those it was put to, passed or not, in any order. nil: none.
	Evaluations []Evaluation `yaml:"evaluations" json:"evaluations,omitzero"`
	// Approvals are those given, in any order. nil: none.
	Approvals []Approved `yaml:"approvals" json:"approvals,omitzero"`
}

// InputProfile is what a route takes in.
type InputProfile struct {
	// WindowTokens is its window, input and output together, in tokens. 0: not stated.
	WindowTokens int `yaml:"window_tokens" json:"window_tokens,omitzero"`
	// Images, Files and Audio say that it reads them. false: not stated.
	Images bool `yaml:"images" json:"images,omitzero"`
	Files  bool `yaml:"files" json:"files,omitzero"`
	Audio  bool `yaml:"audio" json:"audio,omitzero"`
	// SystemText says that instructions reach the model apart from the conversation. false: not stated.
	SystemText bool `yaml:"system_text" json:"system_text,omitzero"`
	// Prefill says that it goes on with an assistant's message. false: not stated.
	Prefill bool `yaml:"prefill" json:"prefill,omitzero"`
	// Locales are the languages it knows, as BCP 47 tags; "en" includes "en-GB". nil: not stated.
	Locales []string `yaml:"locales" json:"locales,omitzero"`
}

// OutputProfile is what a route can promise of its answers.
type OutputProfile struct {
	// JSON says that it can be told to answer in JSON. false: not stated.
	JSON bool `yaml:"json" json:"json,omitzero"`
	// JSONSchema says how it follows a schema: SchemaEnforced or SchemaPrompted. "": not stated.
	JSONSchema string `yaml:"json_schema" json:"json_schema,omitzero"`
	// Refusal is the shape of its refusals: RefusalMarked or RefusalText. "": not stated.
	Refusal string `yaml:"refusal" json:"refusal,omitzero"`
	// FinishReasons are the stop reasons that it reports. nil: not stated.
	FinishReasons []llm.StopReason `yaml:"finish_reasons" json:"finish_reasons,omitzero"`
	// Citations says that it names its sources where it is asked to. false: not stated.
	Citations bool `yaml:"citations" json:"citations,omitzero"`
	// Truncation says what a cut answer looks like: TruncationReported or TruncationSilent. "": not stated.
	Truncation string `yaml:"truncation" json:"truncation,omitzero"`
	// MaxTokens is its longest answer, in tokens. 0: not stated.
	MaxTokens int `yaml:"max_tokens" json:"max_tokens,omitzero"`
	// Reasoning says that the effort of reasoning can be set. false: not stated.
	Reasoning bool `yaml:"reasoning" json:"reasoning,omitzero"`
}

// How a route follows a schema.
const (
	SchemaEnforced = "enforced" // the provider holds the model to it
	SchemaPrompted = "prompted" // the model is told of it in words
)

// What a cut answer looks like.
const (
	TruncationReported = "reported" // its stop reason says so
	TruncationSilent   = "silent"   // like a whole one
)

// ToolsProfile is what a route does with tools.
type ToolsProfile struct {
	// Calls says that it calls tools. false: not stated.
	Calls bool `yaml:"calls" json:"calls,omitzero"`
	// Names are the tools it was tried with. nil: not stated.
	Names []string `yaml:"names" json:"names,omitzero"`
	// SchemaDialects are the dialects of the arguments' schemas that it takes. nil: not stated.
	SchemaDialects []string `yaml:"schema_dialects" json:"schema_dialects,omitzero"`
	// Strict says that the provider holds the model to those schemas. false: not stated.
	Strict bool `yaml:"strict" json:"strict,omitzero"`
	// ParallelCalls says that one answer may call several tools. false: not stated.
	ParallelCalls bool `yaml:"parallel_calls" json:"parallel_calls,omitzero"`
	// ResultPath is how results go back to the model, in a word that both sides use. "": not stated.
	ResultPath string `yaml:"result_path" json:"result_path,omitzero"`
	// RichResults says that results may hold images and files. false: not stated.
	RichResults bool `yaml:"rich_results" json:"rich_results,omitzero"`
}

// SafetyProfile is what stands between a model and the user.
type SafetyProfile struct {
	// Policies are the names of the policies that hold for the route. nil: not stated.
	Policies []string `yaml:"policies" json:"policies,omitzero"`
	// Profile is the name of the safety profile it runs with. "": not stated.
	Profile string `yaml:"profile" json:"profile,omitzero"`
}

// DataProfile is where the data goes and how long it stays.
type DataProfile struct {
	// RetentionDays is how long the provider keeps what it was sent, in days; 0 is not at all. nil: not stated.
	RetentionDays *int `yaml:"retention_days" json:"retention_days,omitzero"`
	// Regions are all that the data may go to. nil: not stated.
	Regions []string `yaml:"regions" json:"regions,omitzero"`
	// TenantIsolation is the isolation from other customers: IsolationShared, IsolationLogical or IsolationDedicated. "": not
	// stated.
	TenantIsolation string `yaml:"tenant_isolation" json:"tenant_isolation,omitzero"`
	// Classes are the classes of data that may be sent to it. nil: not stated.
	Classes []string `yaml:"classes" json:"classes,omitzero"`
}

// OperationProfile is how a route runs.
type OperationProfile struct {
	// LatencyP95MS is the time within which 95 of 100 whole answers came, in milliseconds. 0: not stated.
	LatencyP95MS int `yaml:"latency_p95_ms" json:"latency_p95_ms,omitzero"`
	// Streaming says that answers come in pieces. false: not stated.
	Streaming bool `yaml:"streaming" json:"streaming,omitzero"`
	// RequestIDs says that each answer carries the provider's id. false: not stated.
	RequestIDs bool `yaml:"request_ids" json:"request_ids,omitzero"`
}

// EconomicsProfile is what a route costs and whose quota it uses. Prices are in US dollars; 0 is for free.
type EconomicsProfile struct {
	// InputUSDPerMillion and OutputUSDPerMillion are the prices of a million tokens, that of the input with what is written to
	// a cache, if that is dearer. nil: not stated.
	InputUSDPerMillion  *float64 `yaml:"input_usd_per_million" json:"input_usd_per_million,omitzero"`
	OutputUSDPerMillion *float64 `yaml:"output_usd_per_million" json:"output_usd_per_million,omitzero"`
	// CallUSD is the highest price of one call. nil: not stated.
	CallUSD *float64 `yaml:"call_usd" json:"call_usd,omitzero"`
	// QuotaOwner is the team or account whose quota it uses. "": not stated.
	QuotaOwner string `yaml:"quota_owner" json:"quota_owner,omitzero"`
}

// An Evaluation is one that a route was put to.
type Evaluation struct {
	// Suite is the name of the evaluation, Fixtures the version of its fixtures. "": not stated.
	Suite    string `yaml:"suite" json:"suite,omitzero"`
	Fixtures string `yaml:"fixtures" json:"fixtures,omitzero"`
	// Score is on the suite's own scale. 0: not stated.
	Score float64 `yaml:"score" json:"score,omitzero"`
	// Date is when it was made. Zero: not stated.
	Date Time `yaml:"date" json:"date,omitzero"`
}

// Approved is an approval given to a route. Without all four it is none.
type Approved struct {
	// Workflow is the one it is for.
	Workflow string `yaml:"workflow" json:"workflow,omitzero"`
	// Reasons are the reasons for which the workflow may move to the route. nil: for none.
	Reasons []string `yaml:"reasons" json:"reasons,omitzero"`
	// By is who gave it.
	By string `yaml:"by" json:"by,omitzero"`
	// Until is the moment it ends. Zero: not stated, which is not for ever.
	Until Time `yaml:"until" json:"until,omitzero"`
}

// A Time is a moment, written as RFC 3339 or as a date, which is its first moment in UTC: until 2027-01-01 is all of 2026.
type Time time.Time

// IsZero reports whether t is the zero moment, which is not stated.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// String is t as MarshalText writes it.
func (t Time) String() string {
	u := time.Time(t).UTC()
	if u.Equal(u.Truncate(24 * time.Hour)) {
		return u.Format(time.DateOnly)
	}
	return u.Format(time.RFC3339Nano)
}

// MarshalText writes t as a date if it is the first moment of one in UTC, else as RFC 3339.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a date or RFC 3339.
func (t *Time) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, string(text)); err == nil {
			*t = Time(at)
			return nil
		}
	}
	return fmt.Errorf("contract: %q is no moment; write a date as 2026-12-31 or a time as 2026-12-31T18:00:00Z", text)
}
