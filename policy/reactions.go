package policy

import (
	"maps"
	"slices"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// overrides are the rows of a card that differ from the table. nil: none.
func (c *card) overrides() middleware.Reactions {
	all, out := middleware.DefaultReactions(), middleware.Reactions{}
	set := func(class llm.Class, row middleware.Reaction) {
		if row != all[class] {
			out[class] = row
		}
	}
	for _, word := range sortedKeys(c.Reactions) {
		for _, class := range classesOf([]string{word}) {
			set(class, c.Reactions[word].over(all[class]))
		}
	}
	// That a fallback names a reason which moves nowhere by itself is the approval for it.
	for _, f := range c.Fallbacks {
		for _, class := range classesOf(f.Reasons) {
			row, overridden := out[class]
			if !overridden {
				row = all[class]
			}
			if row.Elsewhere == middleware.Nowhere {
				row.Elsewhere, row.Closed = middleware.Approved, false
				set(class, row)
			}
		}
	}
	for _, class := range classesOf(c.Closed) {
		delete(out, class)
		set(class, closedRow(all[class]))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// reactions are all rows.
func (c *card) reactions() middleware.Reactions {
	all := middleware.DefaultReactions()
	maps.Copy(all, c.overrides())
	return all
}

// over is row with what r changes.
func (r reaction) over(row middleware.Reaction) middleware.Reaction {
	again := map[string]middleware.Again{"never": middleware.Never, "once": middleware.Once, "always": middleware.Always}
	elsewhere := map[string]middleware.Elsewhere{
		"nowhere": middleware.Nowhere, "approved": middleware.Approved, "larger": middleware.Larger, "anywhere": middleware.Anywhere,
	}
	cools := map[string]middleware.Scope{
		"nothing": middleware.Nothing, "route": middleware.Itself, "quota": middleware.SharedQuota,
		"credential": middleware.SharedCredential,
	}
	if r.Again != "" {
		row.Again = again[r.Again]
	}
	if r.Elsewhere != "" {
		row.Elsewhere = elsewhere[r.Elsewhere]
	}
	if r.Cools != "" {
		row.Cools = cools[r.Cools]
	}
	for _, f := range []struct {
		to   *bool
		from *bool
	}{{&row.Long, r.Long}, {&row.Waits, r.Waits}, {&row.Closed, r.Closed}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return row
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
