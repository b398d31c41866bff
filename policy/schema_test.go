package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/modelchain/llm/policy"
)

// full is a card with every key, and routes with every key.
const full = `workflow: full
max_total_attempts: 6
max_elapsed_ms: 20000
max_tokens: 50000
max_incremental_cost_usd: 0.5
replay_safe_until: request_sent
primary: first
allowed_fallbacks:
  - route: second
    reasons: [provider_overload, provider_unavailable, pre-stream_timeout, interrupted_stream, rate_limit, quota, model_not_found,
      missing_capability, unusable_output, auth, circuit_open, budget_exhausted, unknown]
  - route: long
    reasons: [context_overflow]
long_context: long
queue_after_ms: 60000
degrade:
  last_good: {entries: 100, max_age_ms: 600000}
  answer: Please come back in {{wait}}.
  for: [provider_unavailable, rate_limit, quota, budget_exhausted]
fail_closed_on: [policy, invalid_request, unapproved_route, uncertain_side_effect]
retry: {max: 1, base_ms: 5, cap_ms: 50, jitter: 0.2, max_wait_ms: 2000}
cooldown: {rest_ms: 1000, cap_ms: 2000, long_ms: 3000, max_wait_ms: 4000, max_until_ms: 5000, patience_ms: 600, probe_lease_ms: 700}
timeouts: {attempt_ms: 5000, first_token_ms: 1000, idle_ms: 500}
stream: {window_deltas: 4, window_bytes: 100, window_wait_ms: 20, on_interrupt: notice, notice: The answer broke off.}
reactions:
  model_not_found: {again: once, elsewhere: anywhere, cools: quota, long: true, waits: true, closed: false}
---
routes:
  first: &first
    provider: azure
    api: chat
    model: gpt-4o
    base_url: https://example.openai.azure.com
    key: {env: PRIMARY_KEY}
    api_version: "2024-10-21"
    key_header: api-key
    organization: org
    project: proj
    window: 128000
    max_output: 16384
    price: {input: 2.5, output: 10, cached_input: 1.25, cache_write: 2.5}
    capabilities: [text, stream, tools, images, files, audio, json, schema, reasoning, prefill]
    quota: pool
    credential: account
  second: {provider: script, model: m, settings: {region: somewhere}, price: {free: true}}
  long:
    <<: *first
    api: responses
    window: 1000000
---
workflow: short
stream: {whole: true, on_interrupt: continue}
---
workflow: whole
retry: {max: 0}
fail_closed_on: []
queue_after_ms: null
`

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(policy.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bySchema is the first thing that the schema has against the documents of a file.
func bySchema(t *testing.T, s *jsonschema.Schema, file string) error {
	t.Helper()
	docs := yaml.NewDecoder(strings.NewReader(file))
	for {
		var doc any
		err := docs.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(value); err != nil {
			return err
		}
	}
}

func TestTheSchemaIsAsRecorded(t *testing.T) {
	const golden = "schema.json"
	if *update {
		put(t, golden, string(policy.Schema()))
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(policy.Schema(), want) {
		t.Error("schema.json is not what the types say; run: go test ./policy -update")
	}
}

func TestTheSchemaTakesWhatLoadTakes(t *testing.T) {
	s := compiled(t)
	routes := "---\n" + routesAt("http://localhost:1/v1", "http://localhost:2/v1")
	for name, file := range map[string]string{"minimal": minimal + routes, "full": full, "scripted": minimal + "---\n" + scriptedRoutes, "equal": equal} {
		if err := bySchema(t, s, file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// onlyLoad are the bad cards in which no key is wrong by itself.
const onlyLoad = `
a fallback that is the primary
a fallback that is the first route listed
a fallback twice
routes that are not there
no routes at all
no card at all
a reason that fails closed
a stand-in of nothing
a fallback with too small a window
a long context that is not longer
a long context that is the primary
a long context that fails closed
limits that exceed those around them
a queue that is not there
no price where money counts
streams
a notice of nothing
nothing is set
two cards of one name
a key that is not there
routes in two documents
nobody goes on with a broken answer
a cap below the rest that is not written
numbers that are whole, and not plain
a long context that no failure leads to
approvals for what there is not
keys in other places of a route
rows that say what the table says
placeholders that are not known
`

func TestTheSchemaRefusesWhatIsWrongByItself(t *testing.T) {
	s := compiled(t)
	for _, c := range badCards(t) {
		err := bySchema(t, s, c.file)
		if found := strings.Contains(onlyLoad, "\n"+c.name+"\n"); found != (err == nil) {
			t.Errorf("%s: the schema says %v", c.name, err)
		}
	}
}

func TestTheSchemaShowsNoKey(t *testing.T) {
	if text := string(policy.Schema()); strings.Contains(text, primaryKey) || !strings.Contains(text, "max_total_attempts") {
		t.Error("the schema is not what it should be")
	}
}
