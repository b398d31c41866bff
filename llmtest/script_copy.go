package llmtest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/modelchain/llm"
)

// copyRequest is r with nothing shared that could be written to, apart from its call's account and its sink.
func copyRequest(r *llm.Request) *llm.Request {
	c := r.Clone()
	c.Messages = slices.Clone(r.Messages)
	for i := range c.Messages {
		c.Messages[i].Parts = copyParts(c.Messages[i].Parts)
	}
	c.Tools = slices.Clone(r.Tools)
	for i := range c.Tools {
		c.Tools[i].Parameters = bytes.Clone(c.Tools[i].Parameters)
	}
	if r.Format != nil {
		f := *r.Format
		f.Schema = bytes.Clone(f.Schema)
		c.Format = &f
	}
	c.Temperature, c.TopP, c.Seed = copyOf(r.Temperature), copyOf(r.TopP), copyOf(r.Seed)
	c.Stop, c.Labels, c.Extra = slices.Clone(r.Stop), maps.Clone(r.Labels), copyExtra(r.Extra)
	return c
}

// copyResponse is r with nothing shared that could be written to, apart from its account.
func copyResponse(r *llm.Response) *llm.Response {
	if r == nil {
		return nil
	}
	c := *r
	c.Parts, c.Extra, c.Attempts = copyParts(r.Parts), copyExtra(r.Extra), slices.Clone(r.Attempts)
	return &c
}

func copyParts(parts []llm.Part) []llm.Part {
	parts = slices.Clone(parts)
	for i := range parts {
		p := &parts[i]
		p.Data, p.Extra = bytes.Clone(p.Data), copyExtra(p.Extra)
		if p.Call != nil {
			call := *p.Call
			call.Arguments = bytes.Clone(call.Arguments)
			p.Call = &call
		}
		if p.Result != nil {
			result := *p.Result
			result.Parts = copyParts(result.Parts)
			p.Result = &result
		}
	}
	return parts
}

func copyExtra(extra map[string]json.RawMessage) map[string]json.RawMessage {
	extra = maps.Clone(extra)
	for k, v := range extra {
		extra[k] = bytes.Clone(v)
	}
	return extra
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
