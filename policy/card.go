package policy

import "github.com/modelchain/llm/policy/contract"

// card is a workflow's policy as its document has it.
type card struct {
	Workflow    string  `yaml:"workflow" check:"required,name"`
	MaxAttempts int     `yaml:"max_total_attempts" check:"min=1"`
	MaxElapsed  millis  `yaml:"max_elapsed_ms"`
	MaxTokens   int     `yaml:"max_tokens" check:"min=1"`
	MaxCost     float64 `yaml:"max_incremental_cost_usd" check:"above=0"`
	ReplaySafe  string  `yaml:"replay_safe_until" check:"one=first_visible_token|request_sent"`

	Primary   string     `yaml:"primary" check:"name"`
	Fallbacks []fallback `yaml:"allowed_fallbacks" check:"empty"`
	Long      string     `yaml:"long_context" check:"name"`

	QueueAfter *millis  `yaml:"queue_after_ms" check:"null,min=0"`
	Degrade    *degrade `yaml:"degrade"`
	Closed     []string `yaml:"fail_closed_on" check:"words=closed,empty"`

	// Contract is what stand-ins must satisfy, and what answers must look like.
	Contract *contract.Contract `yaml:"contract"`

	Retry     *retry              `yaml:"retry"`
	Cooldown  *cooldown           `yaml:"cooldown"`
	Timeouts  *timeouts           `yaml:"timeouts"`
	Stream    *stream             `yaml:"stream"`
	Journal   *journal            `yaml:"journal"`
	Reactions map[string]reaction `yaml:"reactions" check:"words=class"`
}

type fallback struct {
	Route   string   `yaml:"route" check:"required,name"`
	Reasons []string `yaml:"reasons" check:"required,words=fallback"`
}

type degrade struct {
	LastGood *lastGood `yaml:"last_good"`
	Answer   string    `yaml:"answer"`
	For      []string  `yaml:"for" check:"words=degrade"`
}

type lastGood struct {
	Entries int    `yaml:"entries" check:"min=1"`
	MaxAge  millis `yaml:"max_age_ms"`
}

type retry struct {
	Max     *int    `yaml:"max" check:"max=100"`
	Base    millis  `yaml:"base_ms"`
	Cap     millis  `yaml:"cap_ms"`
	Jitter  float64 `yaml:"jitter" check:"above=0,max=1"`
	MaxWait millis  `yaml:"max_wait_ms"`
}

type cooldown struct {
	Rest       millis `yaml:"rest_ms"`
	Cap        millis `yaml:"cap_ms"`
	Long       millis `yaml:"long_ms"`
	MaxWait    millis `yaml:"max_wait_ms"`
	MaxUntil   millis `yaml:"max_until_ms"`
	Patience   millis `yaml:"patience_ms"`
	ProbeLease millis `yaml:"probe_lease_ms"`
}

type timeouts struct {
	Attempt    millis `yaml:"attempt_ms"`
	FirstToken millis `yaml:"first_token_ms"`
	Idle       millis `yaml:"idle_ms"`
}

type journal struct {
	Acknowledge string `yaml:"acknowledge" check:"one=all|begin|none"`
	OnFailure   string `yaml:"on_failure" check:"one=fail_closed|go_on"`
	Timeout     millis `yaml:"timeout_ms"`
}

type stream struct {
	Deltas      int    `yaml:"window_deltas" check:"min=1"`
	Bytes       int    `yaml:"window_bytes" check:"min=1"`
	Wait        millis `yaml:"window_wait_ms"`
	Whole       bool   `yaml:"whole"`
	OnInterrupt string `yaml:"on_interrupt" check:"one=error|notice|continue"`
	Notice      string `yaml:"notice"`
}

// reaction overrides parts of a row. What is absent stays as it is in the table.
type reaction struct {
	Again     string `yaml:"again" check:"one=never|once|always"`
	Elsewhere string `yaml:"elsewhere" check:"one=nowhere|approved|larger|anywhere"`
	Cools     string `yaml:"cools" check:"one=nothing|route|quota|credential"`
	Long      *bool  `yaml:"long"`
	Waits     *bool  `yaml:"waits"`
	Closed    *bool  `yaml:"closed"`
}
