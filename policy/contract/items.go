package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An item is something a contract can demand of a profile that time does not change.
type item struct {
	path     string                         // in the contract
	profile  string                         // in the profile
	demanded func(*Contract) string         // in a few words. "": it is not demanded
	stated   func(*Profile) string          // in a few words. "": it is not stated
	fits     func(*Contract, *Profile) bool // asked where it is demanded and stated
}

// items is the table of what is compared, in the order of the contract's fields. Quality and approval, which run out, are in
// check.go.
var items = []item{
	atLeast("input.window_tokens", "tokens",
		func(c *Contract) int { return c.Input.WindowTokens }, func(p *Profile) int { return p.Input.WindowTokens }),
	flag("input.images", "images",
		func(c *Contract) bool { return c.Input.Images }, func(p *Profile) bool { return p.Input.Images }),
	flag("input.files", "files",
		func(c *Contract) bool { return c.Input.Files }, func(p *Profile) bool { return p.Input.Files }),
	flag("input.audio", "audio",
		func(c *Contract) bool { return c.Input.Audio }, func(p *Profile) bool { return p.Input.Audio }),
	flag("input.system_text", "system text of its own",
		func(c *Contract) bool { return c.Input.SystemText }, func(p *Profile) bool { return p.Input.SystemText }),
	flag("input.prefill", "that it goes on with an assistant's message",
		func(c *Contract) bool { return c.Input.Prefill }, func(p *Profile) bool { return p.Input.Prefill }),
	allOf("input.locales", "input.locales", speaks,
		func(c *Contract) []string { return c.Input.Locales }, func(p *Profile) []string { return p.Input.Locales }),

	{
		"output.json_schema", "output.json_schema",
		func(c *Contract) string {
			return said(c.Output.JSONSchema != nil || c.Output.JSONSchemaFile != "", "answers by a JSON Schema")
		},
		func(p *Profile) string { return quoted(p.Output.JSONSchema) },
		func(_ *Contract, p *Profile) bool {
			return p.Output.JSONSchema == SchemaEnforced || p.Output.JSONSchema == SchemaPrompted
		},
	},
	{
		"output.json_schema_enforced", "output.json_schema",
		func(c *Contract) string { return said(c.Output.JSONSchemaEnforced, quoted(SchemaEnforced)) },
		func(p *Profile) string { return quoted(p.Output.JSONSchema) },
		func(_ *Contract, p *Profile) bool { return p.Output.JSONSchema == SchemaEnforced },
	},
	{
		"output.required_fields", "output.json",
		func(c *Contract) string {
			return said(len(c.Output.RequiredFields) > 0, "JSON with the fields "+words(c.Output.RequiredFields))
		},
		func(p *Profile) string { return cmp.Or(quoted(p.Output.JSONSchema), said(p.Output.JSON, "JSON")) },
		func(_ *Contract, p *Profile) bool {
			return p.Output.JSON || p.Output.JSONSchema == SchemaEnforced || p.Output.JSONSchema == SchemaPrompted
		},
	},
	same("output.refusal",
		func(c *Contract) string { return c.Output.Refusal }, func(p *Profile) string { return p.Output.Refusal }),
	allOf("output.finish_reasons", "output.finish_reasons", equal,
		func(c *Contract) []string { return plain(c.Output.FinishReasons) },
		func(p *Profile) []string { return plain(p.Output.FinishReasons) }),
	flag("output.citations", "citations",
		func(c *Contract) bool { return c.Output.Citations != Citations{} }, func(p *Profile) bool { return p.Output.Citations }),
	{
		"output.truncation", "output.truncation",
		func(c *Contract) string {
			return said(c.Output.Truncation != "" && c.Output.Truncation != TruncationAccepted, quoted(TruncationReported))
		},
		func(p *Profile) string { return quoted(p.Output.Truncation) },
		func(c *Contract, p *Profile) bool {
			return c.Output.Truncation == TruncationRefused && p.Output.Truncation == TruncationReported
		},
	},
	atLeast("output.max_tokens", "tokens",
		func(c *Contract) int { return c.Output.MaxTokens }, func(p *Profile) int { return p.Output.MaxTokens }),
	flag("output.reasoning", "an effort of reasoning",
		func(c *Contract) bool { return c.Output.Reasoning }, func(p *Profile) bool { return p.Output.Reasoning }),

	flag("tools.calls", "calls of tools",
		func(c *Contract) bool { return c.Tools.Calls }, func(p *Profile) bool { return p.Tools.Calls }),
	allOf("tools.names", "tools.names", equal,
		func(c *Contract) []string { return c.Tools.Names }, func(p *Profile) []string { return p.Tools.Names }),
	allOf("tools.schema_dialect", "tools.schema_dialects", equal,
		func(c *Contract) []string { return one(c.Tools.SchemaDialect) }, func(p *Profile) []string { return p.Tools.SchemaDialects }),
	flag("tools.strict", "strict schemas of arguments",
		func(c *Contract) bool { return c.Tools.Strict }, func(p *Profile) bool { return p.Tools.Strict }),
	flag("tools.parallel_calls", "several calls in one answer",
		func(c *Contract) bool { return c.Tools.ParallelCalls }, func(p *Profile) bool { return p.Tools.ParallelCalls }),
	same("tools.result_path",
		func(c *Contract) string { return c.Tools.ResultPath }, func(p *Profile) string { return p.Tools.ResultPath }),
	flag("tools.rich_results", "results with images and files",
		func(c *Contract) bool { return c.Tools.RichResults }, func(p *Profile) bool { return p.Tools.RichResults }),

	allOf("safety.policies", "safety.policies", equal,
		func(c *Contract) []string { return c.Safety.Policies }, func(p *Profile) []string { return p.Safety.Policies }),
	same("safety.profile",
		func(c *Contract) string { return c.Safety.Profile }, func(p *Profile) string { return p.Safety.Profile }),

	atMost("data.max_retention_days", "data.retention_days", "days",
		func(c *Contract) *int { return c.Data.MaxRetentionDays }, func(p *Profile) *int { return p.Data.RetentionDays }),
	{
		"data.regions", "data.regions",
		func(c *Contract) string { return said(c.Data.Regions != nil, "no region but "+words(c.Data.Regions)) },
		func(p *Profile) string { return words(p.Data.Regions) },
		func(c *Contract, p *Profile) bool { return covers(c.Data.Regions, p.Data.Regions, strings.EqualFold) },
	},
	{
		"data.tenant_isolation", "data.tenant_isolation",
		func(c *Contract) string {
			return said(c.Data.TenantIsolation != "", "at least "+quoted(c.Data.TenantIsolation))
		},
		func(p *Profile) string { return quoted(p.Data.TenantIsolation) },
		func(c *Contract, p *Profile) bool {
			demanded := slices.Index(isolations, c.Data.TenantIsolation)
			return demanded >= 0 && slices.Index(isolations, p.Data.TenantIsolation) >= demanded
		},
	},
	allOf("data.classes", "data.classes", equal,
		func(c *Contract) []string { return c.Data.Classes }, func(p *Profile) []string { return p.Data.Classes }),

	atMost("operation.max_latency_p95_ms", "operation.latency_p95_ms", "ms",
		func(c *Contract) *int { return some(c.Operation.MaxLatencyP95MS) },
		func(p *Profile) *int { return some(p.Operation.LatencyP95MS) }),
	flag("operation.streaming", "streaming",
		func(c *Contract) bool { return c.Operation.Streaming }, func(p *Profile) bool { return p.Operation.Streaming }),
	flag("operation.request_ids", "request ids",
		func(c *Contract) bool { return c.Operation.RequestIDs }, func(p *Profile) bool { return p.Operation.RequestIDs }),

	atMost("economics.max_input_usd_per_million", "economics.input_usd_per_million", "USD",
		func(c *Contract) *float64 { return c.Economics.MaxInputUSDPerMillion },
		func(p *Profile) *float64 { return p.Economics.InputUSDPerMillion }),
	atMost("economics.max_output_usd_per_million", "economics.output_usd_per_million", "USD",
		func(c *Contract) *float64 { return c.Economics.MaxOutputUSDPerMillion },
		func(p *Profile) *float64 { return p.Economics.OutputUSDPerMillion }),
	atMost("economics.max_call_usd", "economics.call_usd", "USD",
		func(c *Contract) *float64 { return c.Economics.MaxCallUSD }, func(p *Profile) *float64 { return p.Economics.CallUSD }),
	same("economics.quota_owner",
		func(c *Contract) string { return c.Economics.QuotaOwner }, func(p *Profile) string { return p.Economics.QuotaOwner }),
}

var isolations = []string{IsolationShared, IsolationLogical, IsolationDedicated}

func flag(path, what string, c func(*Contract) bool, p func(*Profile) bool) item {
	return item{
		path, path,
		func(k *Contract) string { return said(c(k), what) },
		func(k *Profile) string { return said(p(k), what) },
		func(*Contract, *Profile) bool { return true },
	}
}

func same(path string, c func(*Contract) string, p func(*Profile) string) item {
	return item{
		path, path,
		func(k *Contract) string { return quoted(c(k)) },
		func(k *Profile) string { return quoted(p(k)) },
		func(k *Contract, l *Profile) bool { return c(k) == p(l) },
	}
}

func atLeast(path, unit string, c func(*Contract) int, p func(*Profile) int) item {
	return item{
		path, path,
		func(k *Contract) string { return number("at least ", some(c(k)), unit) },
		func(k *Profile) string { return number("", some(p(k)), unit) },
		func(k *Contract, l *Profile) bool { return c(k) > 0 && p(l) >= c(k) },
	}
}

func atMost[N int | float64](path, profile, unit string, c func(*Contract) *N, p func(*Profile) *N) item {
	return item{
		path, profile,
		func(k *Contract) string { return number("at most ", c(k), unit) },
		func(k *Profile) string { return number("", p(k), unit) },
		func(k *Contract, l *Profile) bool { return *p(l) >= 0 && *p(l) <= *c(k) },
	}
}

// allOf demands each of some words.
func allOf(path, profile string, fits func(string, string) bool, c func(*Contract) []string, p func(*Profile) []string) item {
	return item{
		path, profile,
		func(k *Contract) string { return words(c(k)) },
		func(k *Profile) string { return words(p(k)) },
		func(k *Contract, l *Profile) bool { return covers(p(l), c(k), fits) },
	}
}

// covers reports whether each of asked fits one of there.
func covers(there, asked []string, fits func(there, asked string) bool) bool {
	for _, a := range asked {
		if !slices.ContainsFunc(there, func(t string) bool { return fits(t, a) }) {
			return false
		}
	}
	return true
}

func equal(a, b string) bool { return a == b }

// speaks reports whether who knows a language knows what is asked: "en" includes "en-GB".
func speaks(known, asked string) bool {
	return strings.EqualFold(known, asked) ||
		len(asked) > len(known) && known != "" && asked[len(known)] == '-' && strings.EqualFold(known, asked[:len(known)])
}

func said(yes bool, what string) string {
	if yes {
		return what
	}
	return ""
}

func quoted(word string) string {
	if word == "" {
		return ""
	}
	return fmt.Sprintf("%q", word)
}

func number[N int | float64](before string, n *N, unit string) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s%v %s", before, *n, unit)
}

func some(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func one(word string) []string {
	if word == "" {
		return nil
	}
	return []string{word}
}

func plain[S ~string](all []S) []string {
	if all == nil {
		return nil
	}
	out := make([]string, len(all))
	for i, w := range all {
		out[i] = string(w)
	}
	return out
}
