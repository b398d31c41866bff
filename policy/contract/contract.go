package contract

import "github.com/modelchain/llm"

// A Contract is what a workflow demands of every route that may answer for it. The zero value of an item demands nothing;
// what is demanded and not stated by a route is a mismatch.
type Contract struct {
	// Input is what the route must take in.
	Input Input `yaml:"input" json:"input,omitzero"`
	// Output is what each answer must look like. [Validator] checks answers against it.
	Output Output `yaml:"output" json:"output,omitzero"`
	// Tools is what the route must do with tools.
	Tools Tools `yaml:"tools" json:"tools,omitzero"`
	// Safety is what must stand between the model and the user.
	Safety Safety `yaml:"safety" json:"safety,omitzero"`
	// Data is where the data may go and how long it may stay.
	Data Data `yaml:"data" json:"data,omitzero"`
	// Operation is how the route must run.
	Operation Operation `yaml:"operation" json:"operation,omitzero"`
	// Economics is what the route may cost and whose quota it may use.
	Economics Economics `yaml:"economics" json:"economics,omitzero"`
	// Quality is the evaluation that the route must have passed.
	Quality Quality `yaml:"quality" json:"quality,omitzero"`
	// Approval is what somebody must have approved the route for.
	Approval Approval `yaml:"approval" json:"approval,omitzero"`
}

// Input is what a route must take in.
type Input struct {
	// WindowTokens is the smallest window, input and output together, in tokens. 0: any.
	WindowTokens int `yaml:"window_tokens" json:"window_tokens,omitzero"`
	// Images, Files and Audio demand that it reads them.
	Images bool `yaml:"images" json:"images,omitzero"`
	Files  bool `yaml:"files" json:"files,omitzero"`
	Audio  bool `yaml:"audio" json:"audio,omitzero"`
	// SystemText demands that instructions reach the model apart from the conversation.
	SystemText bool `yaml:"system_text" json:"system_text,omitzero"`
	// Prefill demands that it goes on with an assistant's message.
	Prefill bool `yaml:"prefill" json:"prefill,omitzero"`
	// Locales are the languages it must know, as BCP 47 tags. Letters' case does not count. nil: any.
	Locales []string `yaml:"locales" json:"locales,omitzero"`
}

// Output is what each answer must look like, and what a route must be able to promise of its answers.
type Output struct {
	// JSONSchema is the JSON Schema of the answer, which then is JSON and nothing else: the schema as a value (a YAML or JSON
	// object), or its JSON text. Its "format" words are checked. nil: none, or JSONSchemaFile.
	JSONSchema any `yaml:"json_schema" json:"json_schema,omitzero"`
	// JSONSchemaFile is the slash-separated path of a file with the JSON Schema. "": none, or JSONSchema.
	JSONSchemaFile string `yaml:"json_schema_file" json:"json_schema_file,omitzero"`
	// JSONSchemaEnforced demands that the provider itself holds the model to the schema.
	JSONSchemaEnforced bool `yaml:"json_schema_enforced" json:"json_schema_enforced,omitzero"`
	// RequiredFields are fields that must be in the answer, which then is a JSON object, and not be null, an empty text, list
	// or object: "answer", "ticket.id". A field whose name has a dot needs a schema. nil: none.
	RequiredFields []string `yaml:"required_fields" json:"required_fields,omitzero"`
	// AllowFence accepts JSON inside one Markdown code fence. Text around it is never accepted. false: bare JSON only.
	AllowFence bool `yaml:"allow_fence" json:"allow_fence,omitzero"`
	// Refusal is the shape in which the route must refuse: RefusalMarked or RefusalText. "": any.
	Refusal string `yaml:"refusal" json:"refusal,omitzero"`
	// FinishReasons are the stop reasons of acceptable answers; the route must report them. nil: all but "length".
	FinishReasons []llm.StopReason `yaml:"finish_reasons" json:"finish_reasons,omitzero"`
	// Citations are the sources an answer must name.
	Citations Citations `yaml:"citations" json:"citations,omitzero"`
	// Truncation is what becomes of an answer that the token limit cut: TruncationRefused, which demands that the route reports
	// it, or TruncationAccepted. "": refused where it is reported, accepted if FinishReasons has "length".
	Truncation string `yaml:"truncation" json:"truncation,omitzero"`
	// MinChars and MaxChars bound the answer's text, in Unicode code points. 0: no bound.
	MinChars int `yaml:"min_chars" json:"min_chars,omitzero"`
	MaxChars int `yaml:"max_chars" json:"max_chars,omitzero"`
	// MaxTokens is the longest answer that the route must be able to give, in tokens. 0: any.
	MaxTokens int `yaml:"max_tokens" json:"max_tokens,omitzero"`
	// Reasoning demands that the effort of reasoning can be set.
	Reasoning bool `yaml:"reasoning" json:"reasoning,omitzero"`
}

// The shapes of a refusal.
const (
	RefusalMarked = "marked" // by its stop reason or in a field of its own: Response.Refused tells
	RefusalText   = "text"   // in the words of an answer like any other
)

// What becomes of a cut answer.
const (
	TruncationRefused  = "refused"
	TruncationAccepted = "accepted"
)

// Citations are the sources an answer must name, in a field of its JSON, by marks in its text, or both. The zero value demands
// none.
type Citations struct {
	// Field is the field whose list holds the sources: "sources", "answer.sources". "": not in a field.
	Field string `yaml:"field" json:"field,omitzero"`
	// Marker is a regular expression (RE2) that each mark in the text matches, such as \[\d+\]. Marks that are alike count
	// once. "": no marks.
	Marker string `yaml:"marker" json:"marker,omitzero"`
	// Min is the smallest number of sources. 0: 1, if there is a Field or Marker.
	Min int `yaml:"min" json:"min,omitzero"`
}

// Tools is what a route must do with tools.
type Tools struct {
	// Calls demands that it calls tools.
	Calls bool `yaml:"calls" json:"calls,omitzero"`
	// Names are the tools it must have been tried with. nil: none.
	Names []string `yaml:"names" json:"names,omitzero"`
	// SchemaDialect is the dialect of the arguments' schemas that it must take, such as "2020-12". "": any.
	SchemaDialect string `yaml:"schema_dialect" json:"schema_dialect,omitzero"`
	// Strict demands that the provider holds the model to those schemas.
	Strict bool `yaml:"strict" json:"strict,omitzero"`
	// ParallelCalls demands that one answer may call several tools.
	ParallelCalls bool `yaml:"parallel_calls" json:"parallel_calls,omitzero"`
	// ResultPath is how results must go back to the model, in a word that both sides use, such as "tool_message". "": any.
	ResultPath string `yaml:"result_path" json:"result_path,omitzero"`
	// RichResults demands that results may hold images and files.
	RichResults bool `yaml:"rich_results" json:"rich_results,omitzero"`
}

// Safety is what must stand between the model and the user.
type Safety struct {
	// Policies are the names of the policies that must hold for the route. nil: none.
	Policies []string `yaml:"policies" json:"policies,omitzero"`
	// Profile is the name of the provider's or your own safety profile it must run with. "": any.
	Profile string `yaml:"profile" json:"profile,omitzero"`
}

// Data is where the data may go and how long it may stay.
type Data struct {
	// MaxRetentionDays is how long the provider may keep what it was sent, in days; 0 is not at all. nil: any time.
	MaxRetentionDays *int `yaml:"max_retention_days" json:"max_retention_days,omitzero"`
	// Regions are those the data may go to. Letters' case does not count. nil: any.
	Regions []string `yaml:"regions" json:"regions,omitzero"`
	// TenantIsolation is the weakest isolation from other customers: IsolationShared, IsolationLogical or IsolationDedicated.
	// "": any.
	TenantIsolation string `yaml:"tenant_isolation" json:"tenant_isolation,omitzero"`
	// Classes are the classes of data that the workflow sends, such as "public" and "customer". nil: not said.
	Classes []string `yaml:"classes" json:"classes,omitzero"`
}

// The isolations of tenants, the weakest first.
const (
	IsolationShared    = "shared"    // one pool for all customers
	IsolationLogical   = "logical"   // kept apart by the provider's software
	IsolationDedicated = "dedicated" // machines of its own
)

// Operation is how a route must run.
type Operation struct {
	// MaxLatencyP95MS is the longest that 95 of 100 whole answers may take, in milliseconds. 0: any.
	MaxLatencyP95MS int `yaml:"max_latency_p95_ms" json:"max_latency_p95_ms,omitzero"`
	// Streaming demands that answers come in pieces.
	Streaming bool `yaml:"streaming" json:"streaming,omitzero"`
	// RequestIDs demands that each answer carries an id that the provider's support can find it by.
	RequestIDs bool `yaml:"request_ids" json:"request_ids,omitzero"`
}

// Economics is what a route may cost and whose quota it may use. Prices are in US dollars; 0 is for free.
type Economics struct {
	// MaxInputUSDPerMillion and MaxOutputUSDPerMillion are the highest prices of a million tokens. nil: any.
	MaxInputUSDPerMillion  *float64 `yaml:"max_input_usd_per_million" json:"max_input_usd_per_million,omitzero"`
	MaxOutputUSDPerMillion *float64 `yaml:"max_output_usd_per_million" json:"max_output_usd_per_million,omitzero"`
	// MaxCallUSD is the highest price of one call. nil: any.
	MaxCallUSD *float64 `yaml:"max_call_usd" json:"max_call_usd,omitzero"`
	// QuotaOwner is the team or account whose quota the route must use. "": any.
	QuotaOwner string `yaml:"quota_owner" json:"quota_owner,omitzero"`
}

// Quality is the evaluation that a route must have passed: the newest of its suite counts.
type Quality struct {
	// Suite is the name of the evaluation. The others say nothing without it, and fail. "": none is demanded.
	Suite string `yaml:"suite" json:"suite,omitzero"`
	// Fixtures is the version of the suite's fixtures, such as a tag or a hash. "": any.
	Fixtures string `yaml:"fixtures" json:"fixtures,omitzero"`
	// MinScore is the threshold, on the suite's own scale, and must be above 0. 0: any score.
	MinScore float64 `yaml:"min_score" json:"min_score,omitzero"`
	// MaxAgeDays is how old the evaluation may be, in days of 24 hours. 0: any age.
	MaxAgeDays int `yaml:"max_age_days" json:"max_age_days,omitzero"`
}

// Approval is what somebody must have approved a route for.
type Approval struct {
	// Workflow is the workflow that the route must be approved for. "": no approval is demanded, and Reasons must be nil.
	Workflow string `yaml:"workflow" json:"workflow,omitzero"`
	// Reasons are the reasons for which the workflow would move to the route, each of which must be approved. nil: an approval
	// for any reason will do.
	Reasons []string `yaml:"reasons" json:"reasons,omitzero"`
}
