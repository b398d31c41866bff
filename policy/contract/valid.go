package contract

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/modelchain/llm"
)

// problems collects what is wrong with a value from a file.
type problems []error

func (p *problems) add(bad bool, item, format string, args ...any) {
	if bad {
		*p = append(*p, errors.New(item+" "+fmt.Sprintf(format, args...)))
	}
}

func (p *problems) word(item, word string, known ...string) {
	p.add(word != "" && !slices.Contains(known, word), item, "is %q; the words are %s", word, words(known))
}

func (p *problems) list(item string, all []string) {
	p.add(all != nil && len(all) == 0, item, "is an empty list; leave it out, or fill it")
	p.add(slices.Contains(all, ""), item, "has an empty word; remove it")
}

func (p *problems) amount(item string, n int) {
	p.add(n < 0, item, "is %d; leave it out, or use a number above 0", n)
}

func (p *problems) usd(item string, n *float64) {
	p.add(n != nil && (!(*n >= 0) || math.IsInf(*n, 0)), item, "is not an amount; use 0 or a number above it")
}

func (p *problems) reasons(item string, all []llm.StopReason) {
	p.list(item, plain(all))
	for _, r := range all {
		p.word(item, string(r), string(llm.StopEnd), string(llm.StopLength), string(llm.StopToolCalls), string(llm.StopRefusal),
			string(llm.StopFiltered), string(llm.StopOther))
	}
}

// Valid says what in c cannot be meant, whatever the route: a word that is not known, a number below 0, items that contradict
// each other. It does not look into a JSON Schema; [Validator] does. nil: nothing.
func (c Contract) Valid() error {
	var p problems
	p.amount("input.window_tokens", c.Input.WindowTokens)
	p.list("input.locales", c.Input.Locales)
	c.Output.problems(&p)
	p.list("tools.names", c.Tools.Names)
	p.list("safety.policies", c.Safety.Policies)
	p.add(c.Data.MaxRetentionDays != nil && *c.Data.MaxRetentionDays < 0, "data.max_retention_days", "is below 0; 0 is not at all")
	p.list("data.regions", c.Data.Regions)
	p.word("data.tenant_isolation", c.Data.TenantIsolation, isolations...)
	p.list("data.classes", c.Data.Classes)
	p.amount("operation.max_latency_p95_ms", c.Operation.MaxLatencyP95MS)
	p.usd("economics.max_input_usd_per_million", c.Economics.MaxInputUSDPerMillion)
	p.usd("economics.max_output_usd_per_million", c.Economics.MaxOutputUSDPerMillion)
	p.usd("economics.max_call_usd", c.Economics.MaxCallUSD)
	q := &c.Quality
	p.add(q.Suite == "" && *q != Quality{}, "quality.suite", "is missing; name the evaluation that the other items are about")
	p.add(!(q.MinScore >= 0) || math.IsInf(q.MinScore, 0), "quality.min_score", "is %v; use a number above 0", q.MinScore)
	p.amount("quality.max_age_days", q.MaxAgeDays)
	p.add(c.Approval.Workflow == "" && c.Approval.Reasons != nil, "approval.workflow", "is missing; reasons are those of a workflow")
	p.list("approval.reasons", c.Approval.Reasons)
	return errors.Join(p...)
}

// problems are those of an output contract, its schema aside.
func (o *Output) problems(p *problems) {
	p.add(o.JSONSchema != nil && o.JSONSchemaFile != "", "output.json_schema", "and json_schema_file are both given; keep one")
	p.add(o.JSONSchemaEnforced && !o.wantsSchema(), "output.json_schema_enforced",
		"has no schema; add json_schema or json_schema_file")
	p.add(o.AllowFence && !o.wantsJSON(), "output.allow_fence", "is about JSON; add a json_schema or required_fields, or remove it")
	p.list("output.required_fields", o.RequiredFields)
	for _, f := range o.RequiredFields {
		_, ok := fieldPath(f)
		p.add(f != "" && !ok, "output.required_fields", "has %q; write names with a dot between them: \"ticket.id\"", f)
	}
	p.word("output.refusal", o.Refusal, RefusalMarked, RefusalText)
	p.reasons("output.finish_reasons", o.FinishReasons)
	p.word("output.truncation", o.Truncation, TruncationRefused, TruncationAccepted)
	named := slices.Contains(o.FinishReasons, llm.StopLength)
	p.add(o.Truncation == TruncationRefused && named, "output.truncation",
		"is refused while finish_reasons has \"length\"; keep one")
	p.add(o.Truncation == TruncationAccepted && o.FinishReasons != nil && !named, "output.truncation",
		"is accepted while finish_reasons lacks \"length\"; add it there")
	_, ok := fieldPath(o.Citations.Field)
	p.add(o.Citations.Field != "" && !ok, "output.citations.field", "is %q; write names with a dot between them", o.Citations.Field)
	p.add(o.Citations != Citations{} && o.Citations.Field == "" && o.Citations.Marker == "", "output.citations",
		"has neither field nor marker; without one nothing can be counted")
	_, err := patterns(o.Citations.Marker)
	p.add(err != nil, "output.citations.marker", "is no pattern to use: %v", err)
	p.amount("output.citations.min", o.Citations.Min)
	p.amount("output.min_chars", o.MinChars)
	p.amount("output.max_chars", o.MaxChars)
	p.add(o.MaxChars > 0 && o.MinChars > o.MaxChars, "output.min_chars", "is above max_chars; no answer fits")
	p.amount("output.max_tokens", o.MaxTokens)
}

func (o *Output) wantsSchema() bool { return o.JSONSchema != nil || o.JSONSchemaFile != "" }

func (o *Output) wantsJSON() bool {
	return o.wantsSchema() || len(o.RequiredFields) > 0 || o.Citations.Field != ""
}

// Valid says what in p cannot be meant: a word that is not known, a number below 0, an evaluation without a suite or a date, an
// approval that is not whole. nil: nothing.
func (p Profile) Valid() error {
	var all problems
	all.amount("input.window_tokens", p.Input.WindowTokens)
	all.list("input.locales", p.Input.Locales)
	all.word("output.json_schema", p.Output.JSONSchema, SchemaEnforced, SchemaPrompted)
	all.word("output.refusal", p.Output.Refusal, RefusalMarked, RefusalText)
	all.reasons("output.finish_reasons", p.Output.FinishReasons)
	all.word("output.truncation", p.Output.Truncation, TruncationReported, TruncationSilent)
	all.amount("output.max_tokens", p.Output.MaxTokens)
	all.list("tools.names", p.Tools.Names)
	all.list("tools.schema_dialects", p.Tools.SchemaDialects)
	all.list("safety.policies", p.Safety.Policies)
	all.add(p.Data.RetentionDays != nil && *p.Data.RetentionDays < 0, "data.retention_days", "is below 0; 0 is not at all")
	all.list("data.regions", p.Data.Regions)
	all.word("data.tenant_isolation", p.Data.TenantIsolation, isolations...)
	all.list("data.classes", p.Data.Classes)
	all.amount("operation.latency_p95_ms", p.Operation.LatencyP95MS)
	all.usd("economics.input_usd_per_million", p.Economics.InputUSDPerMillion)
	all.usd("economics.output_usd_per_million", p.Economics.OutputUSDPerMillion)
	all.usd("economics.call_usd", p.Economics.CallUSD)
	for i, e := range p.Evaluations {
		at := fmt.Sprintf("evaluations[%d]", i)
		all.add(e.Suite == "", at, "has no suite; name the evaluation")
		all.add(e.Date.IsZero(), at, "has no date; say when it was made")
		all.add(math.IsNaN(e.Score) || math.IsInf(e.Score, 0), at, "has a score that is no number")
	}
	for i := range p.Approvals {
		all.add(!p.Approvals[i].whole(), fmt.Sprintf("approvals[%d]", i), "is not whole; give workflow, reasons, by and until")
		all.list(fmt.Sprintf("approvals[%d].reasons", i), p.Approvals[i].Reasons)
	}
	return errors.Join(all...)
}

// patterns compiles an expression that costs at most mostPattern. An empty one is nil.
func patterns(expr string) (*regexp.Regexp, error) {
	if expr == "" {
		return nil, nil //nolint:nilnil // nothing was given
	}
	if err := checkPattern(expr); err != nil {
		return nil, err
	}
	return regexp.Compile(expr)
}
