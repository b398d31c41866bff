package policy

// card is a workflow's policy as its document has it.
type card struct {
	Workflow    string  `yaml:"workflow" check:"required,name" doc:"the name of the workflow"`
	MaxAttempts int     `yaml:"max_total_attempts" check:"min=1" doc:"most provider calls for one request: first tries, retries and fallbacks; no such ceiling if absent"`
	MaxElapsed  millis  `yaml:"max_elapsed_ms" doc:"most time for one request, in milliseconds; 30000 if absent"`
	MaxTokens   int     `yaml:"max_tokens" check:"min=1" doc:"most input and output tokens of all attempts for one request; no such ceiling if absent"`
	MaxCost     float64 `yaml:"max_incremental_cost_usd" check:"above=0" doc:"most money for one request, in US dollars; every route needs a price then; no such ceiling if absent"`
	ReplaySafe  string  `yaml:"replay_safe_until" check:"one=first_visible_token|request_sent" doc:"until when a failed call may be sent again: before anything of the answer was seen (the default), or only as long as the provider cannot have acted on it"`

	Primary   string     `yaml:"primary" check:"name" doc:"the route that is called first; the first route that is listed if absent"`
	Fallbacks []fallback `yaml:"allowed_fallbacks" check:"empty" doc:"the routes that may stand in, in order, each for its reasons only"`
	Long      string     `yaml:"long_context" check:"name" doc:"the route for requests that do not fit the window of the primary"`

	QueueAfter *millis  `yaml:"queue_after_ms" check:"null,min=0" doc:"the wait from which on work that time may mend is queued, in milliseconds; 0 for any wait; no queue if null or absent"`
	Degrade    *degrade `yaml:"degrade" doc:"what stands in where nobody could answer; nothing if absent"`
	Closed     []string `yaml:"fail_closed_on" check:"words=closed,empty" doc:"failures that end the call at once: no retry, no fallback, no queue, no stand-in"`

	Retry     *retry              `yaml:"retry" doc:"repeating a failed call on the same route"`
	Cooldown  *cooldown           `yaml:"cooldown" doc:"resting a route that failed for good"`
	Timeouts  *timeouts           `yaml:"timeouts" doc:"limits on one attempt; 15 seconds in all if none is set"`
	Stream    *stream             `yaml:"stream" doc:"what is held back of a stream, and what one that broke ends in"`
	Reactions map[string]reaction `yaml:"reactions" check:"words=class" doc:"what a class of failure leads to, by reason word or class, where that differs from the table"`
}

type fallback struct {
	Route   string   `yaml:"route" check:"required,name" doc:"the name of a route"`
	Reasons []string `yaml:"reasons" check:"required,words=fallback" doc:"the failures that it may stand in for"`
}

type degrade struct {
	LastGood *lastGood `yaml:"last_good" doc:"the last good answer to the same question"`
	Answer   string    `yaml:"answer" doc:"a fixed answer; {{wait}} in it becomes the time after which it is worth coming back"`
	For      []string  `yaml:"for" check:"words=degrade" doc:"the failures that a stand-in is given for; all that do not fail closed if absent"`
}

type lastGood struct {
	Entries int    `yaml:"entries" check:"min=1" doc:"how many answers are kept; 1000 if absent"`
	MaxAge  millis `yaml:"max_age_ms" doc:"how old an answer may be, in milliseconds; an hour if absent"`
}

type retry struct {
	Max     *int    `yaml:"max" check:"max=100" doc:"how often a call is repeated on a route; 0 for never; 2 if absent; the last attempt is left to a fallback in any case"`
	Base    millis  `yaml:"base_ms" doc:"the first wait, in milliseconds, where the provider asks for none; 1000 if absent"`
	Cap     millis  `yaml:"cap_ms" doc:"the longest such wait, in milliseconds; 20000 if absent"`
	Jitter  float64 `yaml:"jitter" check:"above=0,max=1" doc:"the share by which waits differ at random; 0.5 if absent"`
	MaxWait millis  `yaml:"max_wait_ms" doc:"the longest wait asked for by a provider that is waited for, in milliseconds; 60000 if absent"`
}

type cooldown struct {
	Rest       millis `yaml:"rest_ms" doc:"how long a route rests, in milliseconds, unless its provider asks for longer; 60000 if absent"`
	Cap        millis `yaml:"cap_ms" doc:"the longest rest after probes that failed, in milliseconds; 300000 if absent"`
	Long       millis `yaml:"long_ms" doc:"the rest after failures such as quota, in milliseconds; 900000 if absent"`
	MaxWait    millis `yaml:"max_wait_ms" doc:"the longest rest that a provider may ask for as a wait, in milliseconds; an hour if absent"`
	MaxUntil   millis `yaml:"max_until_ms" doc:"the longest rest that a provider may ask for as a date, in milliseconds; a day if absent"`
	Patience   millis `yaml:"patience_ms" doc:"how long failures that were never repeated must go on before a rest begins, in milliseconds; 5000 if absent"`
	ProbeLease millis `yaml:"probe_lease_ms" doc:"how long a probe keeps other calls away, in milliseconds; 30000 if absent"`
}

type timeouts struct {
	Attempt    millis `yaml:"attempt_ms" doc:"most time for one attempt, in milliseconds"`
	FirstToken millis `yaml:"first_token_ms" doc:"most time to the first token of a stream, in milliseconds"`
	Idle       millis `yaml:"idle_ms" doc:"longest silence within a stream, in milliseconds"`
}

type stream struct {
	Deltas      int    `yaml:"window_deltas" check:"min=1" doc:"how many deltas of a stream are held back"`
	Bytes       int    `yaml:"window_bytes" check:"min=1" doc:"how many bytes of a stream are held back"`
	Wait        millis `yaml:"window_wait_ms" doc:"for how long the opening of a stream is held back, in milliseconds"`
	Whole       bool   `yaml:"whole" doc:"whether the whole answer is held back"`
	OnInterrupt string `yaml:"on_interrupt" check:"one=error|notice|continue" doc:"what a stream that broke after something was seen ends in: the error (the default), a notice to the reader and the error, or a continuation on a route with the capability prefill"`
	Notice      string `yaml:"notice" doc:"the notice, with on_interrupt: notice"`
}

// reaction overrides parts of a row. What is absent stays as it is in the table.
type reaction struct {
	Again     string `yaml:"again" check:"one=never|once|always" doc:"whether it is repeated on the same route"`
	Elsewhere string `yaml:"elsewhere" check:"one=nowhere|approved|larger|anywhere" doc:"where it may move: nowhere, to a route that names the reason, to a larger window, anywhere"`
	Cools     string `yaml:"cools" check:"one=nothing|route|quota|credential" doc:"what it rests"`
	Long      *bool  `yaml:"long" doc:"whether the rest is cooldown.long_ms"`
	Waits     *bool  `yaml:"waits" doc:"whether time may mend it, so that work can be queued"`
	Closed    *bool  `yaml:"closed" doc:"whether the caller has to hear of it: no queue and no stand-in"`
}
