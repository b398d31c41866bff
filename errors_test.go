package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

func TestClassIsAnErrorAndSurvivesText(t *testing.T) {
	seen := map[string]bool{}
	for c := range llm.Class(llm.NumClasses) {
		text, err := c.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back llm.Class
		if err := back.UnmarshalText(text); err != nil || back != c || seen[string(text)] {
			t.Errorf("%d became %q and then %d, %v", c, text, back, err)
		}
		seen[string(text)] = true
		nobodys := c == llm.Unknown || c == llm.Cooling || c == llm.Exhausted || c == llm.Canceled || c == llm.Queued
		if !nobodys && c.Owner() == llm.OwnerUnknown {
			t.Errorf("%v has no owner", c)
		}
	}
	var c llm.Class
	if err := json.Unmarshal([]byte(`"rate-limited"`), &c); err == nil || !strings.Contains(err.Error(), "rate_limited") {
		t.Errorf("an unknown class gave %v, want the list of classes", err)
	}
}

func TestClassOfIsTheOutermostClass(t *testing.T) {
	rate := &llm.Error{Class: llm.RateLimited}
	for _, test := range []struct {
		err  error
		want llm.Class
	}{
		{nil, llm.Unknown},
		{errors.New("x"), llm.Unknown},
		{llm.Quota, llm.Quota},
		{fmt.Errorf("w: %w", llm.Quota), llm.Quota},
		{rate, llm.RateLimited},
		{fmt.Errorf("w: %w", rate), llm.RateLimited},
		{&llm.Error{Class: llm.Exhausted, Err: rate}, llm.Exhausted},
		{context.Canceled, llm.Canceled},
		{context.DeadlineExceeded, llm.Exhausted},
	} {
		if got := llm.ClassOf(test.err); got != test.want {
			t.Errorf("ClassOf(%v) = %v, want %v", test.err, got, test.want)
		}
	}
	if !errors.Is(&llm.Error{Class: llm.Exhausted, Err: rate}, llm.RateLimited) {
		t.Error("the cause's class is lost")
	}
	if errors.Is(rate, llm.Quota) || errors.Is(rate, context.Canceled) {
		t.Error("an error matches a class that is not its own")
	}
}

func TestErrorSaysWhatWhereAndWhy(t *testing.T) {
	for _, test := range []struct {
		err  *llm.Error
		want string
	}{
		{&llm.Error{Class: llm.Invalid}, "llm: invalid"},
		{
			&llm.Error{Class: llm.RateLimited, Deployment: "p", Evidence: llm.Evidence{Status: 429, Message: "slow down"}},
			"llm: p: rate_limited (HTTP 429): slow down",
		},
		{&llm.Error{Class: llm.Unavailable, Deployment: "p", Err: errors.New("refused")}, "llm: p: unavailable: refused"},
		{&llm.Error{Class: llm.Unavailable, Err: llm.Unavailable}, "llm: unavailable"},
		{
			&llm.Error{Class: llm.Interrupted, Message: "the stream broke", Partial: &llm.Response{}},
			"llm: interrupted: the stream broke (part of the answer was delivered)",
		},
		{
			&llm.Error{Class: llm.Exhausted, Message: "2 of 2 attempts used", Err: &llm.Error{Class: llm.Auth, Deployment: "p"}},
			"llm: exhausted: 2 of 2 attempts used: p: auth",
		},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestPriceCountsCachedInputOnceAndKnowsItsLimits(t *testing.T) {
	p := llm.Price{Input: 10, Output: 30, CachedInput: 1}
	usd, known := p.Cost(llm.Usage{Input: 1e6, CachedInput: 4e5, CacheWrite: 1e5, Output: 1e5})
	if want := 0.5*10 + 0.4*1 + 0.1*10 + 0.1*30; !known || usd < want-1e-9 || usd > want+1e-9 {
		t.Errorf("cost %v, %v; want %v", usd, known, want)
	}
	if _, known := (llm.Price{}).Cost(llm.Usage{Input: 1}); known {
		t.Error("the zero price passes for a known one")
	}
	if usd, known := (llm.Price{Free: true}).Cost(llm.Usage{Input: 1}); !known || usd != 0 {
		t.Error("a free model is not known to be free")
	}
}
