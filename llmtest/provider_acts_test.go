package llmtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
)

func providerModel(_ *testing.T, p *Provider) llm.Caller {
	return openai.New(openai.Config{BaseURL: p.URL, APIKey: "key-made-up", HTTPClient: p.Client()})
}

// wrongly makes a model that is wrong in one way.
func wrongly(f func(ctx context.Context, right llm.Caller, req *llm.Request) (*llm.Response, error)) func(*testing.T, *Provider) llm.Caller {
	return func(t *testing.T, p *Provider) llm.Caller {
		right := providerModel(t, p)
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) { return f(ctx, right, req) })
	}
}

func verdictOf(t *testing.T, a Act) actVerdict {
	t.Helper()
	i := slices.IndexFunc(actVerdicts, func(v actVerdict) bool { return v.act == a })
	if i < 0 {
		t.Fatalf("no verdict on %s", a)
	}
	return actVerdicts[i]
}

func TestEveryActHasAVerdictAndAHelp(t *testing.T) {
	for _, a := range Acts() {
		verdictOf(t, a)
		if a.Help() == "" {
			t.Errorf("%s: no help", a)
		}
	}
	if len(Acts()) != len(actVerdicts) {
		t.Errorf("%d acts, %d verdicts", len(Acts()), len(actVerdicts))
	}
}

func TestActsRejectsWrongAdapters(t *testing.T) {
	change := func(f func(*llm.Error)) func(*testing.T, *Provider) llm.Caller {
		return wrongly(func(ctx context.Context, right llm.Caller, req *llm.Request) (*llm.Response, error) {
			resp, err := right.Call(ctx, req)
			if err != nil {
				e := llm.CopyError(err)
				f(e)
				err = e
			}
			return resp, err
		})
	}
	for _, c := range []struct {
		name  string
		act   Act
		model func(*testing.T, *Provider) llm.Caller
		says  string
	}{
		{"the right one", DoRateLimited, providerModel, ""},
		{"it retries", DoUnavailable, wrongly(func(ctx context.Context, right llm.Caller, req *llm.Request) (*llm.Response, error) {
			if resp, err := right.Call(ctx, req); err == nil {
				return resp, nil
			}
			return right.Call(ctx, req)
		}), "sent 2 requests"},
		{"it takes the class from elsewhere", DoQuota, change(func(e *llm.Error) { e.Class = llm.RateLimited }), "class rate_limited"},
		{"it does not read the wait", DoRateLimited, change(func(e *llm.Error) { e.RetryAfter = 0 }), "a wait of 0s"},
		{"it loses what came before the break", DoStall, change(func(e *llm.Error) { e.Partial = nil }), "the partial answer is"},
		{"it takes a stream without an end for whole", DoNoEnd, wrongly(
			func(ctx context.Context, right llm.Caller, req *llm.Request) (*llm.Response, error) {
				resp, err := right.Call(ctx, req)
				if e := llm.AsError(err); err != nil && e.Partial != nil {
					return e.Partial, nil
				}
				return resp, err
			}), "taken for an answer"},
		{"it makes a refusal a failure", DoRefuse, wrongly(
			func(context.Context, llm.Caller, *llm.Request) (*llm.Response, error) {
				return nil, errors.New("refused")
			}), "sent 0 requests"},
		{"it makes an answer of a refusal", DoRefuse, wrongly(
			func(ctx context.Context, right llm.Caller, req *llm.Request) (*llm.Response, error) {
				resp, err := right.Call(ctx, req)
				if err == nil {
					resp.Parts, resp.Refusal, resp.Stop = []llm.Part{llm.Text(resp.Refusal)}, "", llm.StopEnd
				}
				return resp, err
			}), "an answer, stop reason end"},
	} {
		said := strings.Join(tryAct(t, c.model, verdictOf(t, c.act)), "; ")
		if (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: the suite says %q, want %q", c.name, said, c.says)
		}
	}
}
