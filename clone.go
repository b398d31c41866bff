package llm

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Detach copies what r asks into a request that belongs to no call: one to keep and to ask later. It shares nothing with r that
// could be written to, apart from Sink.
func (r *Request) Detach() *Request {
	if r == nil {
		return nil
	}
	d := *r
	d.scope = scope{}
	d.Messages = slices.Clone(r.Messages)
	for i := range d.Messages {
		d.Messages[i].Parts = cloneParts(d.Messages[i].Parts)
	}
	d.Tools = slices.Clone(r.Tools)
	for i := range d.Tools {
		d.Tools[i].Parameters = bytes.Clone(d.Tools[i].Parameters)
	}
	if d.Format = cloneOf(r.Format); d.Format != nil {
		d.Format.Schema = bytes.Clone(d.Format.Schema)
	}
	d.Temperature, d.TopP, d.Seed = cloneOf(r.Temperature), cloneOf(r.TopP), cloneOf(r.Seed)
	d.Stop, d.Labels, d.Extra = slices.Clone(r.Stop), maps.Clone(r.Labels), cloneExtra(r.Extra)
	return &d
}

// Clone copies an answer to keep or to change: it shares nothing with r that could be written to, apart from the errors in its
// account.
func (r *Response) Clone() *Response {
	if r == nil {
		return nil
	}
	c := *r
	c.Parts, c.Extra, c.Attempts, c.call = cloneParts(r.Parts), cloneExtra(r.Extra), slices.Clone(r.Attempts), nil
	return &c
}

func cloneParts(parts []Part) []Part {
	parts = slices.Clone(parts)
	for i := range parts {
		p := &parts[i]
		p.Data, p.Extra = bytes.Clone(p.Data), cloneExtra(p.Extra)
		if p.Call = cloneOf(p.Call); p.Call != nil {
			p.Call.Arguments = bytes.Clone(p.Call.Arguments)
		}
		if p.Result = cloneOf(p.Result); p.Result != nil {
			p.Result.Parts = cloneParts(p.Result.Parts)
		}
	}
	return parts
}

func cloneExtra(extra map[string]json.RawMessage) map[string]json.RawMessage {
	extra = maps.Clone(extra)
	for k, v := range extra {
		extra[k] = bytes.Clone(v)
	}
	return extra
}

func cloneOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
