package tools

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/modelchain/llm"
)

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// do gives j its result or its error.
func (e *Executor) do(ctx context.Context, j *job) {
	if j.ready {
		return
	}
	if err := ctx.Err(); err != nil {
		j.err = fault(ctx, llm.Canceled, j.call.Tool+" was not begun", err)
		return
	}
	if j.tool.Effect == ReadOnly {
		j.result, j.err = e.read(ctx, j)
		return
	}
	j.result, j.err = e.once(ctx, j)
}

// read runs a tool that changes nothing.
func (e *Executor) read(ctx context.Context, j *job) (Result, error) {
	limited, cancel := j.tool.limit(ctx)
	defer cancel()
	r, err := guarded(limited, j.tool.Run, j.call)
	if err != nil {
		return Result{}, fault(ctx, llm.ClassOf(err), j.call.Tool+" failed, and changes nothing", err)
	}
	r, _ = e.fit(r)
	return r, nil
}

// once gets the result of a call with an effect: the recorded one, or that of running it.
func (e *Executor) once(ctx context.Context, j *job) (Result, error) {
	h := &hold{e: e, j: j, owner: e.claimant()}
	r, err := h.claim(ctx)
	if err != nil {
		return Result{}, err
	}
	switch r.State {
	case Requested:
		return h.run(ctx)
	case Started:
		return h.settle(ctx, r)
	}
	return recorded(j, r)
}

// claimant is a name of its own for a claim: a process that claims the same record twice must not be taken for its former self.
func (e *Executor) claimant() string { return e.cfg.Owner + "#" + rand.Text() }

// step bounds a step of the store.
func step[T any](ctx context.Context, e *Executor, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.StoreTimeout)
	defer cancel()
	return f(ctx)
}

// down is the error for a store that failed before anything happened.
func (e *Executor) down(ctx context.Context, j *job, err error) error {
	return fault(ctx, llm.Unavailable, j.call.Tool+" was not run, since its record cannot be kept", err)
}

func recorded(j *job, r Record) (Result, error) {
	var out Result
	if err := json.Unmarshal(r.Result, &out); err != nil {
		return out, &llm.Error{Class: llm.Unknown, Commit: llm.Committed, Err: err,
			Message: fmt.Sprintf("%s was run, and its recorded result cannot be read (key %s)", j.call.Tool, r.Key)}
	}
	return out, nil
}

// isText reports whether any database takes s: PostgreSQL refuses bytes of 0 and what is not UTF-8.
func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// plain is s as text that any database takes.
func plain(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	const most = 256
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// fit bounds a result, and is its JSON. The result is what is read from that: JSON changes bytes that are not UTF-8 and how raw
// JSON is written, and whoever comes first is to get what the others get.
func (e *Executor) fit(r Result) (Result, []byte) {
	b, err := json.Marshal(r)
	if err == nil && len(b) <= e.cfg.MaxResult {
		var read Result
		if err = json.Unmarshal(b, &read); err == nil {
			return read, b
		}
	}
	note := "[The tool ran, and its result cannot be passed on, because it is no valid JSON. Do not call it again for that.]"
	if err == nil {
		note = fmt.Sprintf("[The tool ran. This is the start of its result, which has %d bytes; %d are passed on. "+
			"Do not call it again for the rest.]", len(b), e.cfg.MaxResult)
	}
	var text strings.Builder
	for _, p := range r.Parts {
		if p.Kind == llm.PartText && text.Len() < e.cfg.MaxResult {
			text.WriteString(p.Text)
		}
	}
	// A byte of text is up to six of JSON, as one of a control character.
	room := (e.cfg.MaxResult - len(note) - 200) / 6
	start := text.String()
	start = strings.ToValidUTF8(start[:min(len(start), room)], "")
	r.Parts = []llm.Part{llm.Text(strings.TrimPrefix(start+"\n"+note, "\n"))}
	b, err = json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("llm/tools: a text cannot be written as JSON: %v", err)) // there is no such text
	}
	return r, b
}

// limit is ctx with the tool's time.
func (t *Tool) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, t.Timeout, llm.Limit(llm.Stalled, "no result within "+t.Timeout.String()))
}

// guarded calls f, and makes errors of its panics and of a goroutine that it ends.
func guarded(ctx context.Context, f func(context.Context, Call) (Result, error), c Call) (r Result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = errors.New("the tool ended its goroutine")
		defer func() {
			if p := recover(); p != nil {
				r, err = Result{}, fmt.Errorf("the tool panicked: %v", p)
			}
		}()
		r, err = f(ctx, c)
	}()
	<-done
	if err == nil {
		return r, nil
	}
	if limit := llm.LimitOf(ctx); limit != nil && !errors.Is(err, ErrNotDone) {
		return Result{}, errors.Join(limit, err)
	}
	return Result{}, err
}
