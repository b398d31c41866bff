package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelchain/llm"
)

// now is when the tables look.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func on(month time.Month, dayOfMonth int) Time {
	return Time(time.Date(2026, month, dayOfMonth, 0, 0, 0, 0, time.UTC))
}

// A row is an item of the contract, demanded, and what a profile can state of it.
type row struct {
	path   string
	demand func(*Contract)
	right  func(*Profile)
	wrong  []func(*Profile) // none where a profile can only state it or not
}

func suite(change func(*Quality)) func(*Contract) {
	return func(c *Contract) { c.Quality.Suite = "s"; change(&c.Quality) }
}

func evaluated(e Evaluation) func(*Profile) {
	return func(p *Profile) { p.Evaluations = append(p.Evaluations, e) }
}

func approval(a Approved) func(*Profile) {
	return func(p *Profile) { p.Approvals = append(p.Approvals, a) }
}

var rows = []row{
	{"input.window_tokens", func(c *Contract) { c.Input.WindowTokens = 100 }, func(p *Profile) { p.Input.WindowTokens = 100 },
		[]func(*Profile){func(p *Profile) { p.Input.WindowTokens = 99 }, func(p *Profile) { p.Input.WindowTokens = -1 }}},
	{"input.images", func(c *Contract) { c.Input.Images = true }, func(p *Profile) { p.Input.Images = true }, nil},
	{"input.files", func(c *Contract) { c.Input.Files = true }, func(p *Profile) { p.Input.Files = true }, nil},
	{"input.audio", func(c *Contract) { c.Input.Audio = true }, func(p *Profile) { p.Input.Audio = true }, nil},
	{"input.system_text", func(c *Contract) { c.Input.SystemText = true }, func(p *Profile) { p.Input.SystemText = true }, nil},
	{"input.prefill", func(c *Contract) { c.Input.Prefill = true }, func(p *Profile) { p.Input.Prefill = true }, nil},
	{"input.locales", func(c *Contract) { c.Input.Locales = []string{"en-GB", "de"} },
		func(p *Profile) { p.Input.Locales = []string{"EN", "de", "fr"} },
		[]func(*Profile){func(p *Profile) { p.Input.Locales = []string{"en-GB", "de-AT"} }, func(p *Profile) { p.Input.Locales = []string{"e", ""} }}},

	{"output.json_schema", func(c *Contract) { c.Output.JSONSchema = map[string]any{} },
		func(p *Profile) { p.Output.JSONSchema = SchemaPrompted },
		[]func(*Profile){func(p *Profile) { p.Output.JSONSchema = "sometimes" }}},
	{"output.json_schema", func(c *Contract) { c.Output.JSONSchemaFile = "a.json" },
		func(p *Profile) { p.Output.JSONSchema = SchemaEnforced }, nil},
	{"output.json_schema_enforced", func(c *Contract) { c.Output.JSONSchemaEnforced = true },
		func(p *Profile) { p.Output.JSONSchema = SchemaEnforced },
		[]func(*Profile){func(p *Profile) { p.Output.JSONSchema = SchemaPrompted }}},
	{"output.required_fields", func(c *Contract) { c.Output.RequiredFields = []string{"a"} },
		func(p *Profile) { p.Output.JSON = true }, []func(*Profile){func(p *Profile) { p.Output.JSONSchema = "sometimes" }}},
	{"output.refusal", func(c *Contract) { c.Output.Refusal = RefusalMarked }, func(p *Profile) { p.Output.Refusal = RefusalMarked },
		[]func(*Profile){func(p *Profile) { p.Output.Refusal = RefusalText }}},
	{"output.finish_reasons", func(c *Contract) { c.Output.FinishReasons = []llm.StopReason{llm.StopEnd, llm.StopToolCalls} },
		func(p *Profile) {
			p.Output.FinishReasons = []llm.StopReason{llm.StopToolCalls, llm.StopLength, llm.StopEnd}
		},
		[]func(*Profile){func(p *Profile) { p.Output.FinishReasons = []llm.StopReason{llm.StopEnd} }}},
	{"output.citations", func(c *Contract) { c.Output.Citations.Field = "sources" }, func(p *Profile) { p.Output.Citations = true }, nil},
	{"output.truncation", func(c *Contract) { c.Output.Truncation = TruncationRefused },
		func(p *Profile) { p.Output.Truncation = TruncationReported },
		[]func(*Profile){func(p *Profile) { p.Output.Truncation = TruncationSilent }}},
	{"output.max_tokens", func(c *Contract) { c.Output.MaxTokens = 8 }, func(p *Profile) { p.Output.MaxTokens = 9 },
		[]func(*Profile){func(p *Profile) { p.Output.MaxTokens = 7 }}},
	{"output.reasoning", func(c *Contract) { c.Output.Reasoning = true }, func(p *Profile) { p.Output.Reasoning = true }, nil},

	{"tools.calls", func(c *Contract) { c.Tools.Calls = true }, func(p *Profile) { p.Tools.Calls = true }, nil},
	{"tools.names", func(c *Contract) { c.Tools.Names = []string{"refund"} }, func(p *Profile) { p.Tools.Names = []string{"find", "refund"} },
		[]func(*Profile){func(p *Profile) { p.Tools.Names = []string{"Refund"} }}},
	{"tools.schema_dialect", func(c *Contract) { c.Tools.SchemaDialect = "2020-12" },
		func(p *Profile) { p.Tools.SchemaDialects = []string{"draft-07", "2020-12"} },
		[]func(*Profile){func(p *Profile) { p.Tools.SchemaDialects = []string{"openapi-3.0"} }}},
	{"tools.strict", func(c *Contract) { c.Tools.Strict = true }, func(p *Profile) { p.Tools.Strict = true }, nil},
	{"tools.parallel_calls", func(c *Contract) { c.Tools.ParallelCalls = true }, func(p *Profile) { p.Tools.ParallelCalls = true }, nil},
	{"tools.result_path", func(c *Contract) { c.Tools.ResultPath = "tool_message" }, func(p *Profile) { p.Tools.ResultPath = "tool_message" },
		[]func(*Profile){func(p *Profile) { p.Tools.ResultPath = "user_message" }}},
	{"tools.rich_results", func(c *Contract) { c.Tools.RichResults = true }, func(p *Profile) { p.Tools.RichResults = true }, nil},

	{"safety.policies", func(c *Contract) { c.Safety.Policies = []string{"pii"} }, func(p *Profile) { p.Safety.Policies = []string{"pii"} },
		[]func(*Profile){func(p *Profile) { p.Safety.Policies = []string{"none"} }}},
	{"safety.profile", func(c *Contract) { c.Safety.Profile = "strict" }, func(p *Profile) { p.Safety.Profile = "strict" },
		[]func(*Profile){func(p *Profile) { p.Safety.Profile = "loose" }}},

	{"data.max_retention_days", func(c *Contract) { c.Data.MaxRetentionDays = new(0) }, func(p *Profile) { p.Data.RetentionDays = new(0) },
		[]func(*Profile){func(p *Profile) { p.Data.RetentionDays = new(1) }, func(p *Profile) { p.Data.RetentionDays = new(-1) }}},
	{"data.regions", func(c *Contract) { c.Data.Regions = []string{"eu", "ch"} }, func(p *Profile) { p.Data.Regions = []string{"EU"} },
		[]func(*Profile){func(p *Profile) { p.Data.Regions = []string{"eu", "us"} }}},
	{"data.tenant_isolation", func(c *Contract) { c.Data.TenantIsolation = IsolationLogical },
		func(p *Profile) { p.Data.TenantIsolation = IsolationDedicated },
		[]func(*Profile){func(p *Profile) { p.Data.TenantIsolation = IsolationShared }, func(p *Profile) { p.Data.TenantIsolation = "perfect" }}},
	{"data.classes", func(c *Contract) { c.Data.Classes = []string{"public", "customer"} },
		func(p *Profile) { p.Data.Classes = []string{"customer", "public"} },
		[]func(*Profile){func(p *Profile) { p.Data.Classes = []string{"public"} }}},

	{"operation.max_latency_p95_ms", func(c *Contract) { c.Operation.MaxLatencyP95MS = 900 },
		func(p *Profile) { p.Operation.LatencyP95MS = 900 },
		[]func(*Profile){func(p *Profile) { p.Operation.LatencyP95MS = 901 }, func(p *Profile) { p.Operation.LatencyP95MS = -5 }}},
	{"operation.streaming", func(c *Contract) { c.Operation.Streaming = true }, func(p *Profile) { p.Operation.Streaming = true }, nil},
	{"operation.request_ids", func(c *Contract) { c.Operation.RequestIDs = true }, func(p *Profile) { p.Operation.RequestIDs = true }, nil},

	{"economics.max_input_usd_per_million", func(c *Contract) { c.Economics.MaxInputUSDPerMillion = new(0.5) },
		func(p *Profile) { p.Economics.InputUSDPerMillion = new(0.0) },
		[]func(*Profile){func(p *Profile) { p.Economics.InputUSDPerMillion = new(0.51) }}},
	{"economics.max_output_usd_per_million", func(c *Contract) { c.Economics.MaxOutputUSDPerMillion = new(0.0) },
		func(p *Profile) { p.Economics.OutputUSDPerMillion = new(0.0) },
		[]func(*Profile){func(p *Profile) { p.Economics.OutputUSDPerMillion = new(0.01) }}},
	{"economics.max_call_usd", func(c *Contract) { c.Economics.MaxCallUSD = new(0.02) },
		func(p *Profile) { p.Economics.CallUSD = new(0.02) },
		[]func(*Profile){func(p *Profile) { p.Economics.CallUSD = new(0.03) }, func(p *Profile) { p.Economics.CallUSD = new(-1.0) }}},
	{"economics.quota_owner", func(c *Contract) { c.Economics.QuotaOwner = "support" }, func(p *Profile) { p.Economics.QuotaOwner = "support" },
		[]func(*Profile){func(p *Profile) { p.Economics.QuotaOwner = "research" }}},

	{"quality.suite", suite(func(*Quality) {}), evaluated(Evaluation{Suite: "s"}), []func(*Profile){evaluated(Evaluation{Suite: "other"})}},
	{"quality.fixtures", suite(func(q *Quality) { q.Fixtures = "v2" }), evaluated(Evaluation{Suite: "s", Fixtures: "v2"}),
		[]func(*Profile){evaluated(Evaluation{Suite: "s", Fixtures: "v1"})}},
	{"quality.score", suite(func(q *Quality) { q.MinScore = 0.9 }), evaluated(Evaluation{Suite: "s", Score: 0.9}),
		[]func(*Profile){evaluated(Evaluation{Suite: "s", Score: 0.89})}},
	{"quality.date", suite(func(q *Quality) { q.MaxAgeDays = 30 }), evaluated(Evaluation{Suite: "s", Date: on(5, 3)}),
		[]func(*Profile){evaluated(Evaluation{Suite: "s", Date: on(5, 1)}), evaluated(Evaluation{Suite: "s", Date: on(6, 2)})}},

	{"approval.workflow", func(c *Contract) { c.Approval.Workflow = "w" },
		approval(Approved{Workflow: "w", Reasons: []string{"quota"}, By: "ada", Until: on(6, 2)}),
		[]func(*Profile){approval(Approved{Workflow: "w", Reasons: []string{"quota"}, By: "ada", Until: on(6, 1)}),
			approval(Approved{Workflow: "w", Reasons: []string{"quota"}, By: "ada"}),
			approval(Approved{Workflow: "w", Reasons: []string{"quota"}, Until: on(6, 2)}),
			approval(Approved{Workflow: "w", By: "ada", Until: on(6, 2)})}},
	{"approval.reasons", func(c *Contract) { c.Approval = Approval{Workflow: "w", Reasons: []string{"overload"}} },
		approval(Approved{Workflow: "w", Reasons: []string{"quota", "overload"}, By: "ada", Until: on(6, 2)}),
		[]func(*Profile){approval(Approved{Workflow: "w", Reasons: []string{"quota"}, By: "ada", Until: on(6, 2)})}},
}

func of(all []Mismatch, path string) *Mismatch {
	i := slices.IndexFunc(all, func(m Mismatch) bool { return m.Item == path })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func TestEachItemIsDemandedStatedAndSatisfied(t *testing.T) {
	for _, r := range rows {
		t.Run(r.path, func(t *testing.T) {
			var c Contract
			r.demand(&c)
			m := of(c.Check(Profile{}, now), r.path)
			if m == nil {
				t.Fatalf("what nobody states satisfies the demand: %v", c.Check(Profile{}, now))
			}
			if m.Stated != "nothing" || m.Expired() || m.Demanded == "" || m.Mend == "" {
				t.Errorf("not stated: %+v", *m)
			}
			for i, wrong := range r.wrong {
				var p Profile
				wrong(&p)
				if of(c.Check(p, now), r.path) == nil {
					t.Errorf("wrong statement %d satisfies the demand", i)
				}
			}
			var p Profile
			r.right(&p)
			if found := c.Check(p, now); found != nil {
				t.Errorf("the right statement: %v", found)
			}
			if found := (Contract{}).Check(p, now); found != nil {
				t.Errorf("nothing is demanded: %v", found)
			}
		})
	}
}

// leaves are the fields of a struct by their YAML path.
func leaves(t reflect.Type, at string, add func(string)) {
	for f := range t.Fields() {
		path := strings.TrimPrefix(at+"."+f.Tag.Get("yaml"), ".")
		if f.Type.Kind() == reflect.Struct {
			leaves(f.Type, path, add)
		} else {
			add(path)
		}
	}
}

func TestEachFieldOfAContractHasARow(t *testing.T) {
	elsewhere := map[string]string{ // what no route is asked for, or has another name in mismatches
		"output.json_schema_file": "output.json_schema", "output.citations.field": "output.citations",
		"output.citations.marker": "output.citations", "output.citations.min": "output.citations",
		"output.allow_fence": "", "output.min_chars": "", "output.max_chars": "",
		"quality.min_score": "quality.score", "quality.max_age_days": "quality.date",
	}
	leaves(reflect.TypeFor[Contract](), "", func(path string) {
		name, known := elsewhere[path]
		if !known {
			name = path
		}
		if name != "" && !slices.ContainsFunc(rows, func(r row) bool { return r.path == name }) {
			t.Errorf("%s has no row in the table of this test", path)
		}
	})
}

func TestYAMLAndJSONNamesAgree(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(s reflect.Type) {
		for f := range s.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if y := f.Tag.Get("yaml"); y == "" || y != name {
				t.Errorf("%s.%s is %q in YAML and %q in JSON", s.Name(), f.Name, y, name)
			}
			at := f.Type
			if at.Kind() == reflect.Slice {
				at = at.Elem()
			}
			if at.Kind() == reflect.Struct && at != reflect.TypeFor[Time]() {
				walk(at)
			}
		}
	}
	walk(reflect.TypeFor[Contract]())
	walk(reflect.TypeFor[Profile]())
}

// facts are what a profile states, one for each leaf.
func facts(t *testing.T, p *Profile) map[string]string {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var walk func(string, any)
	walk = func(at string, v any) {
		if m, ok := v.(map[string]any); ok {
			for k, v := range m {
				walk(at+"."+k, v)
			}
			return
		}
		out[at] = fmt.Sprint(v)
	}
	walk("", v)
	return out
}

func broken(all []Mismatch) map[string]bool {
	out := map[string]bool{}
	for _, m := range all {
		out[m.Item+" "+m.Demanded] = true
	}
	return out
}

func TestADemandMoreNeverHelpsAndAStatementMoreNeverHurts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	stated := 0
	for range 150 {
		var c Contract
		var p Profile
		for _, r := range rows {
			if rng.IntN(3) == 0 {
				r.demand(&c)
			}
			if rng.IntN(3) == 0 {
				if len(r.wrong) > 0 && rng.IntN(2) == 0 {
					r.wrong[rng.IntN(len(r.wrong))](&p)
				} else {
					r.right(&p)
				}
			}
		}
		before := c.Check(p, now)
		if again := c.Check(p, now); !slices.Equal(before, again) {
			t.Fatalf("two looks differ: %v, %v", before, again)
		}
		had := facts(t, &p)
		for _, r := range rows {
			more := c
			r.demand(&more)
			after := broken(more.Check(p, now))
			for m := range broken(before) {
				if !after[m] {
					t.Fatalf("demanding %s removes %q", r.path, m)
				}
			}
			richer, state := p, r.right
			richer.Evaluations, richer.Approvals = slices.Clone(p.Evaluations), slices.Clone(p.Approvals)
			if len(r.wrong) > 0 && rng.IntN(2) == 0 {
				state = r.wrong[0]
			}
			state(&richer)
			has := facts(t, &richer)
			only := len(has) > len(had) && (len(p.Evaluations) == 0 || len(richer.Evaluations) == len(p.Evaluations))
			for k, v := range had {
				only = only && has[k] == v
			}
			if !only {
				continue
			}
			stated++
			for m := range broken(c.Check(richer, now)) {
				if !broken(before)[m] {
					t.Fatalf("stating %s adds %q", r.path, m)
				}
			}
		}
	}
	if stated < 1000 {
		t.Errorf("only %d statements were added", stated)
	}
}

func TestMismatchesComeInTheOrderOfTheFields(t *testing.T) {
	var c Contract
	for _, r := range rows {
		r.demand(&c)
	}
	var got []string
	for _, m := range c.Check(Profile{}, now) {
		got = append(got, m.Item)
	}
	var want []string
	for _, r := range rows {
		if !slices.Contains(want, r.path) {
			want = append(want, r.path)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestAMismatchIsASentence(t *testing.T) {
	c := Contract{Input: Input{WindowTokens: 200_000}}
	got := c.Check(Profile{Input: InputProfile{WindowTokens: 8192}}, now)[0].String()
	want := "input.window_tokens: the workflow demands at least 200000 tokens, the route states 8192 tokens; choose another route, or " +
		"change input.window_tokens of the workflow or input.window_tokens of the route if it is wrong"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTimeSwitchesARouteOff(t *testing.T) {
	c := Contract{
		Quality:  Quality{Suite: "s", MinScore: 0.5, MaxAgeDays: 10},
		Approval: Approval{Workflow: "w", Reasons: []string{"overload", "quota"}},
	}
	p := Profile{
		Evaluations: []Evaluation{{Suite: "s", Score: 0.1, Date: on(5, 1)}, {Suite: "s", Score: 0.9, Date: on(6, 1)}, {Suite: "x", Date: on(1, 1)}},
		Approvals: []Approved{
			{Workflow: "w", Reasons: []string{"overload"}, By: "ada", Until: on(6, 3)},
			{Workflow: "w", Reasons: []string{"overload", "quota"}, By: "bob", Until: on(6, 8)},
			{Workflow: "w", Reasons: []string{"quota"}, By: "", Until: on(12, 1)},
		},
	}
	end := Expires(c, p)
	if !end.Equal(time.Time(on(6, 8))) {
		t.Fatalf("ends at %v", end)
	}
	if found := c.Check(p, end.Add(-1)); found != nil {
		t.Errorf("a moment before: %v", found)
	}
	found := c.Check(p, end)
	if len(found) != 3 { // the approval, and both reasons
		t.Fatalf("at the end: %v", found)
	}
	for _, m := range found {
		if !m.Expired() || !m.Until.Equal(end) {
			t.Errorf("%+v", m)
		}
	}
	late := c.Check(p, time.Time(on(6, 11)))
	if m := of(late, "quality.date"); m == nil || !m.Until.Equal(time.Time(on(6, 11))) {
		t.Errorf("an old evaluation: %v", late)
	}
	c.Approval = Approval{}
	if end := Expires(c, p); !end.Equal(time.Time(on(6, 11))) {
		t.Errorf("the evaluation ends at %v", end)
	}
	if end := Expires(Contract{}, p); !end.IsZero() {
		t.Errorf("nothing that ends is demanded, and it ends at %v", end)
	}
}

func TestTheNewestEvaluationCountsAndOfOneDateTheWorst(t *testing.T) {
	c := Contract{Quality: Quality{Suite: "s", MinScore: 0.5}}
	for _, k := range []struct {
		name string
		all  []Evaluation
		bad  bool
	}{
		{"newer is better", []Evaluation{{Suite: "s", Score: 0.1, Date: on(1, 1)}, {Suite: "s", Score: 0.6, Date: on(1, 2)}}, false},
		{"newer is worse", []Evaluation{{Suite: "s", Score: 0.6, Date: on(1, 1)}, {Suite: "s", Score: 0.1, Date: on(1, 2)}}, true},
		{"one date", []Evaluation{{Suite: "s", Score: 0.1, Date: on(1, 1)}, {Suite: "s", Score: 0.6, Date: on(1, 1)}}, true},
		{"another suite", []Evaluation{{Suite: "z", Score: 0.6, Date: on(1, 1)}}, true},
	} {
		slices.Reverse(k.all)
		for range 2 {
			slices.Reverse(k.all)
			if found := c.Check(Profile{Evaluations: k.all}, now); (found != nil) != k.bad {
				t.Errorf("%s: %v", k.name, found)
			}
		}
	}
	c.Quality.Suite = ""
	if found := c.Check(Profile{Evaluations: []Evaluation{{Score: 1, Date: on(1, 1)}}}, now); of(found, "quality.score") == nil {
		t.Errorf("a demand without a suite is satisfied by anything: %v", found)
	}
}

func TestApprovedIsForTheWorkflowTheReasonAndTheTime(t *testing.T) {
	p := Profile{Approvals: []Approved{{Workflow: "w", Reasons: []string{"overload"}, By: "ada", Until: on(6, 8)}}}
	for _, k := range []struct {
		workflow, reason string
		at               time.Time
		stated           string
	}{
		{"w", "overload", now, ""},
		{"w", "quota", now, `other reasons: "overload"`},
		{"v", "overload", now, "nothing"},
		{"", "overload", now, "nothing"},
		{"w", "overload", time.Time(on(6, 8)), "one that ended at 2026-06-08"},
	} {
		m := p.Approved(k.workflow, k.reason, k.at)
		if m == nil != (k.stated == "") || m != nil && m.Stated != k.stated {
			t.Errorf("%q, %q at %v: %+v", k.workflow, k.reason, k.at, m)
		}
	}
	p.Approvals[0].By = ""
	if m := p.Approved("w", "overload", now); m == nil || m.Expired() || !strings.Contains(m.Stated, "lacks") {
		t.Errorf("nobody gave it: %+v", m)
	}
}

func TestALanguageIncludesItsRegionsAndNothingElse(t *testing.T) {
	for _, k := range []struct {
		known, asked string
		want         bool
	}{
		{"en", "en", true}, {"EN", "en-gb", true}, {"en-GB", "en", false}, {"en", "eng", false}, {"", "-GB", false}, {"zh-Hant", "zh-hant-TW", true},
	} {
		if got := speaks(k.known, k.asked); got != k.want {
			t.Errorf("who knows %q knows %q: %v", k.known, k.asked, got)
		}
	}
}

func TestAWordThatIsNotKnownIsNeverSatisfied(t *testing.T) {
	c := Contract{Data: Data{TenantIsolation: "perfect", Regions: []string{}}, Output: Output{Truncation: "never"}}
	p := Profile{
		Data:   DataProfile{TenantIsolation: IsolationDedicated, Regions: []string{"eu"}},
		Output: OutputProfile{Truncation: TruncationReported},
	}
	for _, item := range []string{"data.tenant_isolation", "data.regions", "output.truncation"} {
		if of(c.Check(p, now), item) == nil {
			t.Errorf("%s is satisfied", item)
		}
	}
	p.Data.TenantIsolation = "perfect"
	if of(c.Check(p, now), "data.tenant_isolation") == nil {
		t.Error("two unknown words satisfy each other")
	}
}

func TestSchemasReachedTwiceAreKnown(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"properties": {"a": {"items": true}, "b": {"type": "string"}}}`:                                              false,
		`{"properties": {"a": {"$ref": "#"}}}`:                                                                         true,
		`{"properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}`: true,
		`{"additionalProperties": {"$ref": "#/properties/x"}, "properties": {"x": {"type": "string"}}}`:                true,
		`{"properties": {"x": {"$ref": "#/additionalProperties"}}, "additionalProperties": {"type": "string"}}`:        true,
	} {
		sch, err := compile(&Output{JSONSchema: schema}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := look(sch); err != nil || s.shared != want {
			t.Errorf("%s: %+v, %v", schema, s, err)
		}
	}
}

func TestTimeIsReadAndWritten(t *testing.T) {
	for _, k := range []struct{ in, out string }{
		{"2026-12-31", "2026-12-31"}, {"2026-12-31T00:00:00Z", "2026-12-31"},
		{"2026-12-31T18:00:00+02:00", "2026-12-31T16:00:00Z"},
	} {
		var v struct{ At Time }
		if err := json.Unmarshal([]byte(`{"At":"`+k.in+`"}`), &v); err != nil || v.At.String() != k.out {
			t.Errorf("%s: %v, %v", k.in, v.At, err)
		}
	}
	var at Time
	if err := at.UnmarshalText([]byte("31.12.2026")); err == nil || !strings.Contains(err.Error(), "2026-12-31") {
		t.Errorf("%v", err)
	}
}

func TestAProfileSurvivesJSON(t *testing.T) {
	var p Profile
	for _, r := range rows {
		r.right(&p)
	}
	var q Profile
	b, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	if err != nil || !maps.Equal(facts(t, &p), facts(t, &q)) {
		t.Errorf("%v: %v\n%v", err, facts(t, &p), facts(t, &q))
	}
}
