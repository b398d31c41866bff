package llmtest_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
)

func TestAScenarioIsReadIntoTheConfiguration(t *testing.T) {
	got, err := llmtest.ReadScenario(strings.NewReader(`{"seed": 18446744073709551615, "routes": [
		{"name": "n", "model": "gpt-*", "api": "chat", "header": {"x-tenant": "acme"}, "wait": {"min": "1s", "max": "2s"},
		 "quota": {"requests": 3, "tokens": 9, "per": "1m30s", "then": "quota"},
		 "outages": [{"from": "10s", "to": "40s", "turn": {"do": "overloaded"}}],
		 "turns": [{"do": "stall", "name": "first", "times": 2, "at": 1, "hold": "5s", "pieces": ["a", "b"], "reasoning": "r", "no_usage": true,
		   "calls": [{"id": "c", "name": "f", "arguments": {"a": [1, "x"]}}], "usage": {"input": 5, "cached_input": 2}, "stop": "length",
		   "first": "250ms", "gap": {"fixed": "1ms", "median": "2s", "sigma": 0.5}, "retry_after": "2s", "status": 201, "model": "m",
		   "header": {"a": "b"}, "content_type": "x/y"},
		   {"one_of": [{"weight": 0.5, "text": "t"}, {"do": "error", "error": "quota"}, {"do": "raw", "body": "b"}]}]},
		{}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := llmtest.ProviderConfig{Seed: 1<<64 - 1, Routes: []llmtest.Route{{
		Name: "n", Model: "gpt-*", API: "chat", Header: map[string]string{"x-tenant": "acme"},
		Wait:    llmtest.Latency{Min: time.Second, Max: 2 * time.Second},
		Quota:   llmtest.Quota{Requests: 3, Tokens: 9, Per: 90 * time.Second, Then: llmtest.DoQuota},
		Outages: []llmtest.Outage{{From: 10 * time.Second, To: 40 * time.Second, Turn: llmtest.Turn{Do: llmtest.DoOverloaded}}},
		Turns: []llmtest.Turn{
			{
				Do: llmtest.DoStall, Name: "first", Times: 2, At: 1, Hold: 5 * time.Second, Pieces: []string{"a", "b"}, Reasoning: "r", NoUsage: true,
				Calls: []llm.ToolCall{{ID: "c", Name: "f", Arguments: []byte(`{"a": [1, "x"]}`)}}, Usage: llm.Usage{Input: 5, CachedInput: 2},
				Stop: llm.StopLength, First: fixed(250 * time.Millisecond),
				Gap:        llmtest.Latency{Fixed: time.Millisecond, Median: 2 * time.Second, Sigma: 0.5},
				RetryAfter: 2 * time.Second, Status: 201, Model: "m", Header: map[string]string{"a": "b"}, ContentType: "x/y",
			},
			{OneOf: []llmtest.Turn{{Weight: 0.5, Text: "t"}, {Do: llmtest.DoError, Error: llmtest.DoQuota}, {Do: llmtest.DoRaw, Body: "b"}}},
		},
	}, {}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAMistakeInAScenarioIsToldWithItsLine(t *testing.T) {
	turn := func(fields string) string { return "{\"routes\": [{\"turns\": [\n{" + fields + "}]}]}" }
	for _, c := range []struct{ file, says string }{
		{"", "line 1: the scenario: it ends in the midst of a value; close what is open"},
		{"{\"routes\": [\n{\"turns\": [", "line 2: the scenario: it ends in the midst"},
		{"{\n\"routes\": nope}", "line 2: the scenario: this is no JSON: invalid character 'o'"},
		{"{}\n{}", "line 2: the scenario: there is more after its end"},
		{"[]", "line 1: the scenario: [] cannot stand here; write an object"},
		{"{\n\n\"route\": []}", "line 3: route: there is no such field; write one of routes, seed"},
		{"{\"routes\": [\n{\"turns\": [\n{\"do\": \"answer\"},\n{\"dooo\": 1}]}]}", "line 4: routes[0].turns[1].dooo: there is no such field; write one of do, name"},
		{"{\"routes\": [\n{\"turns\": [\n{},\n{\"do\": \"rate-limited\"}]}]}", "line 4: routes[0].turns[1].do: there is no act \"rate-limited\"; did you mean \"rate_limited\"?"},
		{"{\"routes\": [{\"turns\": [{\n\"hold\": 5}]}]}", "line 2: routes[0].turns[0].hold: 5 cannot stand here; write a time with its unit, such as"},
		{"{\"routes\": [{\"turns\": [{\n\"hold\": \"-5s\"}]}]}", "line 2: routes[0].turns[0].hold: -5s is below zero"},
		{"{\"routes\": [{\"wait\": {\n\"min\": \"2s\",\n\"max\": \"1s\"}}]}", "line 3: routes[0].wait.max: max is below min"},
		{"{\"routes\": [{\"turns\": [{\n\"at\": \"two\"}]}]}", "line 2: routes[0].turns[0].at: \"two\" cannot stand here; write a whole number"},
		{"{\"routes\": [{\"turns\": [{\"at\": 1.5}]}]}", "write a whole number"},
		{"{\"routes\": [{\"turns\": [{\"at\": null}]}]}", "write a whole number"},
		{"{\"routes\": [{\"turns\": [{\"weight\": \"much\"}]}]}", "write a number"},
		{"{\"routes\": [{\"turns\": [{\"no_usage\": 1}]}]}", "write true or false"},
		{"{\"routes\": [{\"turns\": [{\"text\": 1}]}]}", "write a text in quotes"},
		{"{\"routes\": [{\"turns\": {}}]}", "write a list"},
		{"{\"routes\": [{\"header\": []}]}", "write an object of texts"},
		{"{\"routes\": [{\"name\": \"a\",\n\"name\": \"b\"}]}", "line 2: routes[0].name: it is there twice"},
		{"{\"seed\": -1}", "line 1: seed: -1 cannot stand here; write a whole number, 0 or more"},
		{"{\"routes\": [\n{},\n{\"model\": \"m\"}]}", "line 3: routes[1]: no request comes to it: the route before it is for all; put it before"},
		{"{\"routes\": [{\"model\": \"*\"},\n{}]}", "line 2: routes[1]: no request comes to it"},
		{"{\"routes\": [{\n\"model\": \"*gpt\"}]}", "line 2: routes[0].model: a * can stand at the end alone, and this is \"*gpt\"; write"},
		{"{\"routes\": [{\n\"quota\": {\"per\": \"1m\"}}]}", "line 2: routes[0].quota: it bounds nothing; give it requests or tokens"},
		{"{\"routes\": [{\"quota\": {\"requests\": 1,\n\"then\": \"answer\"}}]}", "line 2: routes[0].quota.then: \"answer\" does not turn a request away; write"},
		{"{\"routes\": [{\"header\": {\n\"x y\": \"a\"}}]}", "line 2: routes[0].header.x y: \"x y\" is no name of a header; write"},
		{turn(`"do": "stall", "error": "quota"`), "line 2: routes[0].turns[0].error: only the act error ends in a failure, and this is \"stall\"; write"},
		{turn(`"text": "a", "pieces": ["b"]`), "line 2: routes[0].turns[0].pieces: there are pieces beside a text; leave out"},
		{turn(`"do": "auth", "one_of": []`), "line 2: routes[0].turns[0].one_of: there is nothing to draw from; write"},
		{turn(`"do": "auth", "one_of": [{}]`), "line 2: routes[0].turns[0].do: a turn of one_of is done in its place; write it into"},
		{turn(`"do": "cut", "text": "a b c", "at": 4`), "line 2: routes[0].turns[0].at: the answer has no 4 pieces; write up to 3, or"},
		{turn(`"do": "cut", "at": 2`), "routes[0].turns[0].at: the answer has no 2 pieces; write up to 1"},
		{turn(`"text": "a b c", "at": 1`), "line 2: routes[0].turns[0].at: nothing breaks after pieces of an answer, and this is \"answer\"; write one of reset_body"},
		{turn(`"header": {"a:": "b"}`), "line 2: routes[0].turns[0].header.a:: \"a:\" is no name of a header; write"},
		{turn(`"header": {"a": "b\nc"}`), "line 2: routes[0].turns[0].header.a: the value has a line break"},
		{turn(`"usage": {"input": -1}`), "line 2: routes[0].turns[0].usage.input: -1 is below zero; write 0 or more"},
		{turn(`"calls": [{"name": "f", "arguments": "{}"}]`), "line 2: routes[0].turns[0].calls[0].arguments: the arguments are no JSON object: \"{}\"; write a JSON object"},
		{turn(`"calls": [{"name": "f"}]`), "line 2: routes[0].turns[0].calls[0].arguments: the arguments are no JSON object: ; write a JSON object"},
		{turn(`"status": 500`), "line 2: routes[0].turns[0].status: an answer does not come with status 500; write a failure as the act"},
		{turn(`"do": "stall", "status": 204`), "an answer does not come with status 204"},
		{turn(`"do": "foo"`), "there is no act \"foo\"; write one of answer"},
		{turn(`"do": "stal"`), "there is no act \"stal\"; did you mean \"stall\"?"},
		{"{\"routes\": [{\"match\": true}]}", "routes[0].match: there is no such field"},
	} {
		if _, err := llmtest.ReadScenario(strings.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s\nsays %v\nwant %s", c.file, err, c.says)
		}
	}
	lost := errors.New("lost")
	if _, err := llmtest.ReadScenario(iotest.ErrReader(lost)); !errors.Is(err, lost) {
		t.Error(err)
	}
}

func FuzzReadScenario(f *testing.F) {
	f.Add(`{"seed": 1, "routes": [{"turns": [{"do": "stall", "at": 2, "gap": {"median": "1s"}, "calls": [{"arguments": {}}]}]}]}`)
	f.Add(`{"routes": [{"outages": [{"from": "1s", "turn": {"one_of": [{}]}}]}]}`)
	f.Fuzz(func(t *testing.T, file string) {
		_, err := llmtest.ReadScenario(strings.NewReader(file))
		if err != nil && !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%v does not say where", err)
		}
	})
}
