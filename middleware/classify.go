package middleware

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/classify"
)

// ClassifyConfig sets [Classify]. The zero value is the default.
type ClassifyConfig struct {
	// Rules are a team's own rows. They are asked first and overrule a class that an adapter found. nil: none.
	Rules []classify.Rule
	// Logger is told of refusals. nil: slog.Default. To have none logged, give it one with slog.DiscardHandler.
	Logger *slog.Logger
}

// Classify is the stage "classify": it gives each failed attempt beneath its class, by the rules of package classify and a
// team's own before them, and takes in errors that are no *llm.Error yet, as a team's own stages and models return them.
//
// An answer that is a refusal is logged, without a word of it, and returned as it is.
//
// Streams: the same. It belongs innermost, around the deployment, so that all other stages see the class. It never changes
// an answer and never hides an error: what it was given stays in the chain. It panics on a rule that Rule.Validate refuses.
func Classify(cfg ClassifyConfig) llm.Stage {
	c := classify.New(cfg.Rules...)
	return llm.Stage{Name: "classify", Config: cfg, Wrap: wrapping("Classify", func(next llm.Caller) llm.Caller {
		s := &classifying{next: next, cfg: cfg, rules: c}
		for d := range llm.Describe(next).Deployments() {
			s.beneath = append(s.beneath, d)
		}
		return s
	})}
}

// classifying is also the gate by which the deployments beneath learn the class of what they return.
type classifying struct {
	llm.OpenGate
	next    llm.Caller
	cfg     ClassifyConfig
	rules   *classify.Classifier
	beneath []*llm.Deployment // nil: not known
}

// Classify has no say in deployments of other branches.
func (s *classifying) Classify(ctx context.Context, d *llm.Deployment, err error) *llm.Error {
	if s.beneath != nil && !slices.Contains(s.beneath, d) {
		return nil
	}
	return s.rules.Classify(ctx, err)
}

func (s *classifying) Describe() llm.Node {
	return llm.Node{Name: "classify", Config: s.cfg, Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *classifying) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if req == nil {
		return s.next.Call(ctx, nil)
	}
	r := req.Accounted()
	defer r.Enforce(s).Lift()
	resp, err := s.next.Call(ctx, r)
	if err != nil {
		if _, ok := errors.AsType[*llm.Error](err); ok {
			return nil, err
		}
		return nil, s.rules.Classify(ctx, err)
	}
	if resp.Refused() {
		s.logRefusal(ctx, resp)
	}
	return resp, nil
}

func (s *classifying) logRefusal(ctx context.Context, resp *llm.Response) {
	logger := s.cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "the model refused",
		slog.String("deployment", resp.Deployment), slog.String("model", resp.Model),
		slog.String("stop", string(resp.Stop)), slog.String("stop_detail", resp.StopDetail),
		slog.String("request_id", resp.RequestID))
}
