package middleware_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
)

// richAnswer has all that an answer can point to.
func richAnswer() *llm.Response {
	extra := func() map[string]json.RawMessage { return map[string]json.RawMessage{"k": json.RawMessage(`"v"`)} }
	return &llm.Response{
		Parts: []llm.Part{
			{Kind: llm.PartText, Text: "good", Extra: extra()},
			{Kind: llm.PartImage, Data: []byte("png")},
			{Kind: llm.PartReasoning, Text: "x", Call: &llm.ToolCall{Name: "f", Arguments: json.RawMessage(`{}`)}},
			{Kind: llm.PartToolResult, Result: &llm.ToolResult{Parts: []llm.Part{{Kind: llm.PartImage, Data: []byte("gif"), Extra: extra()}}}},
		},
		Stop: llm.StopEnd, StopDetail: "stop", Model: "m", Extra: extra(),
	}
}

// spoil overwrites all that it can reach from v.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				spoil(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			spoil(v.MapIndex(k))
			v.SetMapIndex(k, reflect.Zero(v.Type().Elem()))
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("spoiled")
		}
	case reflect.Uint8:
		if v.CanSet() {
			v.SetUint('!')
		}
	}
}

func TestAStandInBelongsToItsCaller(t *testing.T) {
	always := richAnswer()
	for name, cfg := range map[string]middleware.DegradeConfig{
		"LastGood": {LastGood: middleware.NewLastGood(middleware.LastGoodConfig{})},
		"Answer":   {Answer: func(context.Context, *llm.Request, *llm.Error) *llm.Response { return always }},
	} {
		chat := degraded(cfg, llmtest.Script(llmtest.Step{Response: richAnswer()}, llmtest.Fail(llm.Unavailable)))
		for i := range 3 {
			resp, err := chat.Call(t.Context(), retryAsk())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := richAnswer()
			if !reflect.DeepEqual(resp.Parts, want.Parts) || !reflect.DeepEqual(resp.Extra, want.Extra) || resp.Degraded != (i > 0) {
				t.Errorf("%s, call %d: %+v", name, i, resp)
			}
			spoil(reflect.ValueOf(&resp.Parts))
			spoil(reflect.ValueOf(&resp.Extra))
		}
	}
}

func TestAStandInHasConsumedNothing(t *testing.T) {
	good := richAnswer()
	good.Usage, good.RequestID, good.Status, good.Continued = llm.Usage{Input: 100, Output: 10}, "req-1", 200, true
	chat := degraded(middleware.DegradeConfig{LastGood: middleware.NewLastGood(middleware.LastGoodConfig{})},
		llmtest.Script(llmtest.Step{Response: good}, llmtest.Fail(llm.Unavailable)))
	if resp, err := chat.Call(t.Context(), retryAsk()); err != nil || resp.RequestID != "req-1" || resp.Usage.Input != 100 {
		t.Fatalf("%+v, %v", resp, err)
	}
	resp, err := chat.Call(t.Context(), retryAsk())
	if err != nil || !resp.Degraded || resp.Usage != (llm.Usage{}) || resp.RequestID != "" || resp.Status != 0 || resp.Continued || resp.Deployment != "" {
		t.Errorf("%+v, %v", resp, err)
	}
	if resp.Text() != "good" || resp.Model != "m" || resp.Stop != llm.StopEnd || resp.StopDetail != "stop" || len(resp.Attempts) != 1 {
		t.Errorf("%+v", resp)
	}
}

func TestStandInNeverAsksToComeBackTooEarly(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		0: "a moment", -time.Second: "a moment", 1: "1s", time.Second: "1s", 1400 * time.Millisecond: "2s", 89*time.Second + 1: "1m30s",
		1<<63 - 1: "2562047h47m16.854775807s",
	} {
		resp := middleware.StandIn("{{wait}}")(t.Context(), retryAsk(), &llm.Error{RetryAfter: wait})
		if resp.Text() != want {
			t.Errorf("%v: %q, want %q", wait, resp.Text(), want)
		}
	}
}
