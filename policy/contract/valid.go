package contract

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/modelchain/llm"
)

// A Problem is something in a contract, a profile or a deployment that cannot be meant.
type Problem struct {
	// Item is the item it is about: "output.truncation", "evaluations.0".
	Item string
	// Text says what is wrong with it, Mend what to do, each without the item.
	Text, Mend string
}

// Error is p in a sentence.
func (p *Problem) Error() string { return p.Item + " " + p.Text + "; " + p.Mend }

// problems are those found.
type problems []*Problem

// err is all of p, nil if there are none.
func (p problems) err() error {
	all := make([]error, len(p))
	for i := range p {
		all[i] = p[i]
	}
	return errors.Join(all...)
}

func (p *problems) add(bad bool, item, mend, format string, args ...any) {
	if bad {
		*p = append(*p, &Problem{Item: item, Text: fmt.Sprintf(format, args...), Mend: mend})
	}
}

func (p *problems) word(item, word string, known ...string) {
	p.add(word != "" && !slices.Contains(known, word), item, "use one of "+words(known), "is %q", word)
}

func (p *problems) list(item string, all []string) {
	p.add(all != nil && len(all) == 0, item, "leave it out, or fill it", "is an empty list")
	p.add(slices.Contains(all, ""), item, "remove it", "has an empty word")
}

func (p *problems) amount(item string, n int) {
	p.add(n < 0, item, "leave it out, or use a number above 0", "is %d", n)
}

func (p *problems) usd(item string, n *float64) {
	p.add(n != nil && (!(*n >= 0) || math.IsInf(*n, 0)), item, "use 0 or a number above it", "is not an amount")
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
func (c Contract) Valid() []*Problem {
	var p problems
	p.amount("input.window_tokens", c.Input.WindowTokens)
	p.list("input.locales", c.Input.Locales)
	c.Output.problems(&p)
	p.list("tools.names", c.Tools.Names)
	p.list("safety.policies", c.Safety.Policies)
	p.add(c.Data.MaxRetentionDays != nil && *c.Data.MaxRetentionDays < 0, "data.max_retention_days",
		"write 0 for not at all", "is below 0")
	p.list("data.regions", c.Data.Regions)
	p.word("data.tenant_isolation", c.Data.TenantIsolation, isolations...)
	p.list("data.classes", c.Data.Classes)
	p.amount("operation.max_latency_p95_ms", c.Operation.MaxLatencyP95MS)
	p.usd("economics.max_input_usd_per_million", c.Economics.MaxInputUSDPerMillion)
	p.usd("economics.max_output_usd_per_million", c.Economics.MaxOutputUSDPerMillion)
	p.usd("economics.max_call_usd", c.Economics.MaxCallUSD)
	q := &c.Quality
	p.add(q.Suite == "" && *q != Quality{}, "quality.suite", "name the evaluation that the other items are about", "is missing")
	p.add(!(q.MinScore >= 0) || math.IsInf(q.MinScore, 0), "quality.min_score", "use a number above 0", "is %v", q.MinScore)
	p.amount("quality.max_age_days", q.MaxAgeDays)
	p.add(c.Approval.Workflow == "" && c.Approval.Reasons != nil, "approval.workflow",
		"name the workflow that the reasons are of", "is missing")
	p.list("approval.reasons", c.Approval.Reasons)
	return p
}

// problems are those of an output contract, its schema aside.
func (o *Output) problems(p *problems) {
	p.add(o.JSONSchema != nil && o.JSONSchemaFile != "", "output.json_schema", "keep one", "and json_schema_file are both given")
	p.add(o.JSONSchemaEnforced && !o.wantsSchema(), "output.json_schema_enforced",
		"add json_schema or json_schema_file", "has no schema")
	p.add(o.AllowFence && !o.wantsJSON(), "output.allow_fence",
		"add a json_schema or required_fields, or remove it", "is about JSON")
	p.list("output.required_fields", o.RequiredFields)
	for _, f := range o.RequiredFields {
		_, ok := fieldPath(f)
		p.add(f != "" && !ok, "output.required_fields", "write names with a dot between them: \"ticket.id\"", "has %q", f)
	}
	p.word("output.refusal", o.Refusal, RefusalMarked, RefusalText)
	p.reasons("output.finish_reasons", o.FinishReasons)
	p.word("output.truncation", o.Truncation, TruncationRefused, TruncationAccepted)
	named := slices.Contains(o.FinishReasons, llm.StopLength)
	p.add(o.Truncation == TruncationRefused && named, "output.truncation",
		"keep one", "is refused while finish_reasons has \"length\"")
	p.add(o.Truncation == TruncationAccepted && o.FinishReasons != nil && !named, "output.truncation",
		"add it there, or remove one of the two", "is accepted while finish_reasons lacks \"length\"")
	_, ok := fieldPath(o.Citations.Field)
	p.add(o.Citations.Field != "" && !ok, "output.citations.field",
		"write names with a dot between them", "is %q", o.Citations.Field)
	p.add(o.Citations != Citations{} && o.Citations.Field == "" && o.Citations.Marker == "", "output.citations",
		"add one of them", "has neither field nor marker")
	_, err := patterns(o.Citations.Marker)
	p.add(err != nil, "output.citations.marker", "write a smaller or a valid regular expression of RE2",
		"is no pattern to use: %v", err)
	p.amount("output.citations.min", o.Citations.Min)
	p.amount("output.min_chars", o.MinChars)
	p.amount("output.max_chars", o.MaxChars)
	p.add(o.MaxChars > 0 && o.MinChars > o.MaxChars, "output.min_chars", "make it smaller, no answer fits", "is above max_chars")
	p.amount("output.max_tokens", o.MaxTokens)
}

func (o *Output) wantsSchema() bool { return o.JSONSchema != nil || o.JSONSchemaFile != "" }

func (o *Output) wantsJSON() bool {
	return o.wantsSchema() || len(o.RequiredFields) > 0 || o.Citations.Field != ""
}

// Valid says what in p cannot be meant: a word that is not known, a number below 0, an evaluation without a suite or a date, an
// approval that is not whole. nil: nothing.
func (p Profile) Valid() []*Problem {
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
	all.add(p.Data.RetentionDays != nil && *p.Data.RetentionDays < 0, "data.retention_days", "write 0 for not at all", "is below 0")
	all.list("data.regions", p.Data.Regions)
	all.word("data.tenant_isolation", p.Data.TenantIsolation, isolations...)
	all.list("data.classes", p.Data.Classes)
	all.amount("operation.latency_p95_ms", p.Operation.LatencyP95MS)
	all.usd("economics.input_usd_per_million", p.Economics.InputUSDPerMillion)
	all.usd("economics.output_usd_per_million", p.Economics.OutputUSDPerMillion)
	all.usd("economics.call_usd", p.Economics.CallUSD)
	for i, e := range p.Evaluations {
		at := fmt.Sprintf("evaluations.%d", i)
		all.add(e.Suite == "", at, "name the evaluation", "has no suite")
		all.add(e.Date.IsZero(), at, "say when it was made", "has no date")
		all.add(math.IsNaN(e.Score) || math.IsInf(e.Score, 0), at, "write it as a number", "has a score that is none")
	}
	for i := range p.Approvals {
		all.add(!p.Approvals[i].whole(), fmt.Sprintf("approvals.%d", i), "give workflow, reasons, by and until", "is not whole")
		all.list(fmt.Sprintf("approvals.%d.reasons", i), p.Approvals[i].Reasons)
	}
	return all
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
