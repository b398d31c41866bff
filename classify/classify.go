// Package classify turns the evidence of a failed call into its class. It is the one place that does: adapters and the
// Classify stage call it, and everything else asks the class.
//
// The table is data (see [Rule]): a row for each thing that providers really send, printed by [Classifier.Fprint],
// extended by rows of the user's, which are asked first. Error.Rule names the row that decided.
//
// Where an answer finds fault with the request (400, 404, 413, 422 and the like), its message quotes what the user wrote.
// There a code that names the fault decides before every phrase about the account, and what stands in quotes, in a URL or
// behind "got" and "input:" is no evidence of the account's state. Rows of the user's see all of a message.
package classify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// A Classifier is a table of rows made ready. It is immutable and safe for concurrent use.
type Classifier struct {
	user     []*row
	families map[string][]*row // every family's rows with the general ones, in the order they are asked
	general  []*row
}

var standard = New()

// New makes a classifier of the built-in rows and the user's, which are asked first, in the order given, and also
// overrule a class that an adapter found. It panics on a row that Rule.Validate refuses.
func New(rows ...Rule) *Classifier {
	c := &Classifier{families: map[string][]*row{}}
	for i := range rows {
		r := rows[i]
		r.Step = StepUser
		if r.Name == "" {
			r.Name = strings.Trim(fmt.Sprintf("user.%s.%s", r.Provider, r.Class), ".")
		}
		if err := r.Validate(); err != nil {
			panic(err)
		}
		c.user = append(c.user, compile(&r))
	}
	var all []*row
	for _, table := range tables() {
		for i := range table {
			all = append(all, compile(&table[i]))
		}
	}
	pick := func(family string) []*row {
		var rows []*row
		for step := StepCode; step < numSteps; step++ {
			for _, want := range []string{family, ""} {
				for _, r := range all {
					if r.Step == step && r.provider == want {
						rows = append(rows, r)
					}
				}
				if family == "" {
					break
				}
			}
		}
		return rows
	}
	c.general = pick("")
	for _, r := range all {
		if r.provider != "" && c.families[r.provider] == nil {
			c.families[r.provider] = pick(r.provider)
		}
	}
	return c
}

// Err classifies err with the built-in rows. See [Classifier.Classify].
func Err(ctx context.Context, err error) *llm.Error { return standard.Classify(ctx, err) }

// Error classifies the evidence of e with the built-in rows. See [Classifier.Error].
func Error(e *llm.Error) *llm.Error { return standard.Error(e) }

// Rules lists the rows that a provider's failures are held against, in the order they are asked: the user's that are for
// it or for all, then round by round the family's and the general ones.
func (c *Classifier) Rules(provider string) []Rule {
	var rules []Rule
	for _, rows := range [][]*row{c.userRows(provider), c.rows(Family(provider))} {
		for _, r := range rows {
			rules = append(rules, *r.Rule)
		}
	}
	return rules
}

// Fprint writes the rows that a provider's failures are held against, one a line, for a person to read.
func (c *Classifier) Fprint(w io.Writer, provider string) error {
	if err := fprint(w, c.userRows(provider)); err != nil {
		return err
	}
	return fprint(w, c.rows(Family(provider)))
}

// userRows are the user's rows for a provider. What a gateway passes on is held against the rows of who stands behind it, too,
// which are listed under that name.
func (c *Classifier) userRows(provider string) (rows []*row) {
	family := Family(provider)
	for _, r := range c.user {
		if r.isFor(provider, family) {
			rows = append(rows, r)
		}
	}
	return rows
}

// isFor reports whether a row of the user's is for a provider of that name and family.
func (r *row) isFor(provider, family string) bool {
	return r.provider == "" || r.provider == family || strings.EqualFold(r.provider, provider)
}

func (c *Classifier) rows(family string) []*row {
	if rows := c.families[family]; rows != nil {
		return rows
	}
	return c.general
}

// Classify is err as an *llm.Error with its class, owner, commit state, wait and texts without keys. nil stays nil.
//
// ctx is the context of the call that failed. If it has ended, that decides: with the class of the llm.Limit that ended it,
// else Canceled or, at the caller's deadline, Exhausted. A context error under a
// living ctx is somebody else's.
func (c *Classifier) Classify(ctx context.Context, err error) *llm.Error {
	if err == nil {
		return nil
	}
	if ctx != nil && ctx.Err() != nil {
		return c.ended(ctx, err)
	}
	if e, ok := errors.AsType[*llm.Error](err); ok && e != nil {
		return c.Error(llm.CopyError(err))
	}
	e := &llm.Error{Err: err}
	if class, ok := errors.AsType[llm.Class](err); ok {
		e.Class = class
	} else {
		evidenceOf(err, &e.Evidence)
	}
	return c.Error(e)
}

// Error is a copy of e with class, owner, commit state, wait, advice and evidence filled in and its texts redacted.
// A class that e has already stays, unless a user's row says otherwise.
func (c *Classifier) Error(e *llm.Error) *llm.Error {
	if e == nil {
		return nil
	}
	out := *e
	switch out.Class {
	case llm.Canceled, llm.Cooling, llm.Exhausted: // not the provider's doing
		out.Owner = ownerOf(out.Class, out.Owner)
		redact(&out)
		return &out
	}
	f := find(&out)
	v := c.decide(f, &out)
	c.fill(&out, f, v)
	return &out
}

// A verdict is what decided, and how.
type verdict struct {
	class     llm.Class
	owner     llm.Owner
	rule      string
	coolUntil bool
	phase     llm.Phase // where it broke, as far as the verdict tells
	unsent    bool      // nothing reached the provider
	keep      bool      // the class was there before
}

func (r *row) verdict() verdict {
	return verdict{class: r.Class, owner: r.owner, rule: r.Name, coolUntil: r.CoolUntil}
}

func (c *Classifier) decide(f *finding, e *llm.Error) verdict {
	for _, r := range c.user {
		if (r.isFor(e.Provider, f.family) || r.provider == f.told) && r.matches(f) {
			return r.verdict()
		}
	}
	if e.Class != llm.Unknown {
		return verdict{class: e.Class, owner: ownerOf(e.Class, e.Owner), rule: e.Rule, coolUntil: e.CoolUntil, keep: true}
	}
	if class, ok := errors.AsType[llm.Class](e.Err); ok && class != llm.Unknown {
		return verdict{class: class, owner: class.Owner(), keep: true}
	}
	if f.answered {
		for _, r := range c.rows(f.rowsOf()) {
			if r.matches(f) {
				return r.verdict()
			}
		}
	}
	if v, ok := transport(e.Err, f.phase); ok {
		return v
	}
	switch {
	case f.status >= 200 && f.status < 300 && f.facts.Error:
		return verdict{class: llm.Unavailable, owner: llm.OwnerTransient, rule: "default.error_in_answer"}
	case f.status >= 200 && f.status < 300:
		return verdict{class: llm.BadOutput, owner: llm.OwnerTransient, rule: "default.not_an_answer"}
	}
	return verdict{}
}

func ownerOf(c llm.Class, o llm.Owner) llm.Owner {
	if o != llm.OwnerUnknown {
		return o
	}
	return c.Owner()
}

// A finding is the evidence read, once for all rows.
type finding struct {
	facts        wire.Facts
	wait         wire.Wait
	status       int
	phase        llm.Phase
	family, told string
	text         string // the messages, folded
	sieve        sieve
	marks        uint64 // of the codes
	body         string
	answered     bool // the provider answered, in whatever way, and the answer is a failure
	evParam      string
	hearing      hearing
}

func (f *finding) param() string {
	if f.evParam != "" {
		return wire.Norm(f.evParam)
	}
	return wire.Norm(f.facts.Param)
}

func (f *finding) raw() string {
	if f.facts.Text != "" {
		return f.facts.Text
	}
	return f.body
}

func (f *finding) holdsAny(ps []phrase) bool {
	for i := range ps {
		if f.sieve.may(&ps[i]) && ps[i].in(f.text) {
			return true
		}
	}
	return false
}

// rowsOf is the family whose rows decide: a gateway's failures are mostly those of who stands behind it.
func (f *finding) rowsOf() string {
	if f.told != "" {
		switch f.family {
		case "", "litellm", "vercel", "openrouter", "openai":
			return f.told
		}
	}
	return f.family
}

func find(e *llm.Error) *finding {
	ev := &e.Evidence
	f := &finding{phase: ev.Phase, family: Family(e.Provider), body: ev.Body, evParam: ev.Param}
	f.read(ev)
	f.marks = marksOf(f.facts.Codes)
	f.wait = wire.RetryAfter(ev.Header, &f.facts, time.Now())
	f.status = effective(ev.Status, f.facts.Status)
	f.told = told(&f.facts, ev.Header, ev.Body)
	ok := ev.Status >= 200 && ev.Status < 300
	f.answered = ev.Status != 0 && !ok || f.facts.Error
	if !f.answered { // an answer's own words are not a failure's
		f.facts.Codes, f.facts.Text, f.marks = nil, "", 0
	}
	f.text = fold(f.facts.Text)
	f.sieve.fill(f.text)
	return f
}

// effective is the status that counts: the body's replaces a 2xx and the absence of one; over a server error it
// counts only where it is 429, and over any other never.
func effective(status, inner int) int {
	switch {
	case inner < 300:
		return status
	case status == 0, status >= 200 && status < 300, status >= 500 && inner == http.StatusTooManyRequests:
		return inner
	}
	return status
}
