package tokens

import (
	"context"

	"github.com/modelchain/llm"
)

// bound is what the count of req surely does not exceed, told from lengths alone: byte-level encodings make at most one
// token of a byte. It must stay cheap, as it is all that most requests need.
func (p *profile) bound(req *llm.Request, media func(*llm.Part) int) int {
	n := p.request + p.message*len(req.Messages) + len(req.System)
	if req.System != "" {
		n += p.message
	}
	for i := range req.Messages {
		parts := req.Messages[i].Parts
		for j := range parts {
			part := &parts[j]
			if part.Kind == llm.PartText && part.Extra == nil {
				n += len(part.Text)
			} else {
				n += p.partBound(part, media)
			}
		}
	}
	if len(req.Tools) > 0 || req.Format != nil || req.Extra != nil {
		n += p.settingsBound(req)
	}
	return n
}

func (p *profile) partBound(part *llm.Part, media func(*llm.Part) int) int {
	n := len(part.Text)
	switch part.Kind {
	case llm.PartText, llm.PartReasoning:
	case llm.PartToolCall:
		if c := part.Call; c != nil {
			n += p.tool + len(c.ID) + len(c.Name) + len(c.Arguments)
		}
	case llm.PartToolResult:
		if r := part.Result; r != nil {
			n += p.tool + len(r.CallID) + len(r.Name)
			for i := range r.Parts {
				n += p.partBound(&r.Parts[i], media)
			}
		}
	default: // a kind that is not known counts as a file
		n += len(part.Name)
		if own := ownMedia(media, part); own >= 0 {
			n += own
		} else {
			n += p.mediaBound(part)
		}
	}
	for _, extra := range part.Extra {
		n += len(extra)
	}
	return n
}

func (p *profile) settingsBound(req *llm.Request) int {
	n := 0
	if len(req.Tools) > 0 {
		n += p.tools + len(req.ToolChoice.Name)
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		n += p.tool + len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if req.Format != nil {
		n += p.tool + len(req.Format.Name) + len(req.Format.Schema)
	}
	for _, extra := range req.Extra {
		n += len(extra)
	}
	return n
}

func ownMedia(media func(*llm.Part) int, part *llm.Part) int {
	if media == nil {
		return -1
	}
	return media(part)
}

// tally is a count on its way. sum is what is counted; rest is the bound of what is not, so that sum+rest never is
// below the count. Each step takes from rest what bound put there.
type tally struct {
	*profile
	*vocabulary
	limit     int // 0: none
	sum, rest int
	room      room
	media     func(*llm.Part) int
}

// known reports whether the count is known to exceed the limit or to stay within it.
func (t *tally) known() bool {
	return t.limit > 0 && (t.sum > t.limit || t.sum+t.rest <= t.limit)
}

// fixed counts n tokens that are certain.
func (t *tally) fixed(n int) {
	t.sum += n
	t.rest -= n
}

// count counts req up to limit. rest is its bound.
func (c *Counter) count(ctx context.Context, req *llm.Request, p *profile, limit, rest int) (int, error) {
	v, err := p.encoding.vocabulary()
	if err != nil {
		return 0, err
	}
	t := &tally{profile: p, vocabulary: v, limit: limit, rest: rest, media: c.config.Media}
	if err := t.all(ctx, req); err != nil {
		return 0, err
	}
	if t.limit > 0 && t.sum <= t.limit {
		return t.sum + t.rest, nil
	}
	return t.sum, nil
}

func (t *tally) all(ctx context.Context, req *llm.Request) error {
	t.fixed(t.request + t.message*len(req.Messages))
	if req.System != "" {
		t.fixed(t.message)
	}
	if err := t.text(ctx, req.System); err != nil {
		return err
	}
	for i := range req.Messages {
		parts := req.Messages[i].Parts
		for j := range parts {
			if t.known() {
				return nil
			}
			if err := t.part(ctx, &parts[j]); err != nil {
				return err
			}
		}
	}
	return t.settings(ctx, req)
}

func (t *tally) settings(ctx context.Context, req *llm.Request) error {
	if len(req.Tools) > 0 {
		t.fixed(t.tools)
		if err := t.text(ctx, req.ToolChoice.Name); err != nil {
			return err
		}
	}
	for i := range req.Tools {
		tool := &req.Tools[i]
		t.fixed(t.tool)
		if err := t.texts(ctx, tool.Name, tool.Description, string(tool.Parameters)); err != nil {
			return err
		}
	}
	if f := req.Format; f != nil {
		t.fixed(t.tool)
		if err := t.texts(ctx, f.Name, string(f.Schema)); err != nil {
			return err
		}
	}
	for _, extra := range req.Extra {
		if err := t.text(ctx, string(extra)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) part(ctx context.Context, part *llm.Part) error {
	if err := t.text(ctx, part.Text); err != nil {
		return err
	}
	switch part.Kind {
	case llm.PartText, llm.PartReasoning:
	case llm.PartToolCall:
		if c := part.Call; c != nil {
			t.fixed(t.tool)
			if err := t.texts(ctx, c.ID, c.Name, string(c.Arguments)); err != nil {
				return err
			}
		}
	case llm.PartToolResult:
		if r := part.Result; r != nil {
			t.fixed(t.tool)
			if err := t.texts(ctx, r.CallID, r.Name); err != nil {
				return err
			}
			for i := range r.Parts {
				if err := t.part(ctx, &r.Parts[i]); err != nil {
					return err
				}
			}
		}
	default:
		if err := t.medium(ctx, part); err != nil {
			return err
		}
	}
	for _, extra := range part.Extra {
		if err := t.text(ctx, string(extra)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) medium(ctx context.Context, part *llm.Part) error {
	if err := t.text(ctx, part.Name); err != nil {
		return err
	}
	if own := ownMedia(t.media, part); own >= 0 {
		t.fixed(own)
		return nil
	}
	if textual(part) {
		text := string(content(part))
		t.rest -= size(part) - len(text) // base64 is longer than what it holds
		return t.text(ctx, text)
	}
	t.rest -= t.mediaBound(part)
	t.sum += t.mediaTokens(part)
	return nil
}

func (t *tally) texts(ctx context.Context, texts ...string) error {
	for _, s := range texts {
		if err := t.text(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
