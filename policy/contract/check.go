package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Mismatch is an item in which a route does not do what a workflow demands.
type Mismatch struct {
	// Item is the item of the contract: "output.json_schema".
	Item string
	// Demanded is what the contract demands, Stated what the route states, each in a few words.
	Demanded, Stated string
	// Mend says what to do about it.
	Mend string
	// Until is the moment until which the route did satisfy the item: an approval or an evaluation that has run out. Zero: what
	// the two say does not fit, whatever the time.
	Until time.Time
}

// Expired reports whether it is time that brought m.
func (m Mismatch) Expired() bool { return !m.Until.IsZero() }

// String is m in a sentence.
func (m Mismatch) String() string {
	return fmt.Sprintf("%s: the workflow demands %s, the route states %s; %s", m.Item, m.Demanded, m.Stated, m.Mend)
}

// notStated is what a route states of which it states nothing.
const notStated = "nothing"

// Check lists what of c the route does not satisfy at a moment, in the order of the contract's fields. nil: it may be used.
//
// What is demanded and not stated is a mismatch. So is what cannot be compared: a word that is not known, a negative number.
func (c Contract) Check(p Profile, at time.Time) []Mismatch {
	var found []Mismatch
	for _, it := range items {
		demanded := it.demanded(&c)
		if demanded == "" {
			continue
		}
		stated := it.stated(&p)
		switch {
		case stated == "":
			found = append(found, Mismatch{
				Item: it.path, Demanded: demanded, Stated: notStated,
				Mend: "if it is so, state " + it.profile + " in the profile of the route, else choose another route",
			})
		case !it.fits(&c, &p):
			found = append(found, Mismatch{
				Item: it.path, Demanded: demanded, Stated: stated,
				Mend: "choose another route, or change " + it.path + " of the workflow or " + it.profile + " of the route if it is wrong",
			})
		}
	}
	found = append(found, c.Quality.check(&p, at)...)
	return append(found, c.Approval.check(&p, at)...)
}

// Expires is the moment at which a route that satisfies c stops doing so, because its evaluation gets too old or an approval
// ends. Zero: time changes nothing.
func Expires(c Contract, p Profile) time.Time {
	var first time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if e := p.newest(c.Quality.Suite); e != nil {
		sooner(c.Quality.until(e))
	}
	for _, reason := range c.Approval.all() {
		sooner(p.approvedUntil(c.Approval.Workflow, reason))
	}
	return first
}

// Approved reports whether somebody approved p for a workflow and a reason and the approval holds at a moment. nil: so it is.
func (p Profile) Approved(workflow, reason string, at time.Time) *Mismatch {
	item, demanded := "approval.reasons", fmt.Sprintf("an approval for %q by reason of %q", workflow, reason)
	if reason == anyReason {
		item, demanded = "approval.workflow", fmt.Sprintf("an approval for %q", workflow)
	}
	until := p.approvedUntil(workflow, reason)
	switch {
	case at.Before(until):
		return nil
	case !until.IsZero():
		return &Mismatch{
			Item: item, Demanded: demanded, Stated: "one that ended at " + Time(until).String(), Until: until,
			Mend: "have it approved again, and add that to approvals of the route",
		}
	}
	return &Mismatch{
		Item: item, Demanded: demanded, Stated: p.otherApprovals(workflow),
		Mend: "have the route approved, and add that to approvals of the route with workflow, reasons, by and until",
	}
}

// anyReason asks for an approval whatever its reasons are.
const anyReason = ""

// all are the reasons to ask for, first of all whether there is an approval.
func (a *Approval) all() []string {
	if a.Workflow == "" && len(a.Reasons) == 0 {
		return nil
	}
	return append([]string{anyReason}, a.Reasons...)
}

func (a *Approval) check(p *Profile, at time.Time) []Mismatch {
	var found []Mismatch
	for _, reason := range a.all() {
		if m := p.Approved(a.Workflow, reason, at); m != nil {
			found = append(found, *m)
		}
	}
	return found
}

// approvedUntil is the end of the approval that holds longest. Zero: there never was one.
func (p *Profile) approvedUntil(workflow, reason string) time.Time {
	var last time.Time
	for i := range p.Approvals {
		a := &p.Approvals[i]
		if a.whole() && a.Workflow == workflow && (reason == anyReason || slices.Contains(a.Reasons, reason)) &&
			time.Time(a.Until).After(last) {
			last = time.Time(a.Until)
		}
	}
	return last
}

func (a *Approved) whole() bool {
	return a.Workflow != "" && len(a.Reasons) > 0 && a.By != "" && !a.Until.IsZero()
}

// otherApprovals is what there is in the place of the approval asked for.
func (p *Profile) otherApprovals(workflow string) string {
	var reasons []string
	broken := false
	for i := range p.Approvals {
		if a := &p.Approvals[i]; a.Workflow == workflow {
			broken = broken || !a.whole()
			reasons = append(reasons, a.Reasons...)
		}
	}
	switch {
	case broken:
		return "one that lacks its workflow, reasons, by or until"
	case len(reasons) > 0:
		slices.Sort(reasons)
		return "other reasons: " + words(slices.Compact(reasons))
	}
	return notStated
}

// newest is the newest evaluation of a suite, of several of one date the worst. nil: there is none.
func (p *Profile) newest(suite string) *Evaluation {
	var newest *Evaluation
	for i := range p.Evaluations {
		e := &p.Evaluations[i]
		if suite == "" || e.Suite != suite {
			continue
		}
		if newest == nil || cmp.Or(time.Time(e.Date).Compare(time.Time(newest.Date)), cmp.Compare(newest.Score, e.Score)) > 0 {
			newest = e
		}
	}
	return newest
}

// until is the moment at which e is too old. Zero: it never is, or its date is not stated.
func (q *Quality) until(e *Evaluation) time.Time {
	if q.MaxAgeDays == 0 || e.Date.IsZero() {
		return time.Time{}
	}
	return time.Time(e.Date).UTC().AddDate(0, 0, min(q.MaxAgeDays, mostDays))
}

const mostDays = 1_000_000 // beyond which dates mean nothing

func (q *Quality) check(p *Profile, at time.Time) []Mismatch {
	var found []Mismatch
	e := p.newest(q.Suite)
	miss := func(item, demanded, stated string, until time.Time) {
		if stated == "" {
			stated = notStated
		}
		found = append(found, Mismatch{
			Item: "quality." + item, Demanded: demanded, Stated: stated, Until: until,
			Mend: fmt.Sprintf("evaluate the route with suite %q, and add the result to evaluations of the route", q.Suite),
		})
	}
	if q.Suite != "" && e == nil {
		miss("suite", fmt.Sprintf("an evaluation %q", q.Suite), "", time.Time{})
	}
	if e == nil {
		e = &Evaluation{}
	}
	if q.Fixtures != "" && e.Fixtures != q.Fixtures {
		miss("fixtures", q.Fixtures, e.Fixtures, time.Time{})
	}
	if q.MinScore != 0 && !(e.Score >= q.MinScore && e.Score != 0) {
		stated := ""
		if e.Score != 0 {
			stated = fmt.Sprint(e.Score)
		}
		miss("score", fmt.Sprintf("at least %v", q.MinScore), stated, time.Time{})
	}
	if q.MaxAgeDays == 0 {
		return found
	}
	demanded, until := fmt.Sprintf("an evaluation of the last %d days", q.MaxAgeDays), q.until(e)
	switch {
	case e.Date.IsZero():
		miss("date", demanded, "", time.Time{})
	case time.Time(e.Date).After(at):
		miss("date", demanded, e.Date.String()+", which is to come", time.Time{})
	case !at.Before(until):
		miss("date", demanded, e.Date.String(), until)
	}
	return found
}

// words are quoted words in a row.
func words[S ~string](all []S) string {
	var b strings.Builder
	for i, w := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", string(w))
	}
	return b.String()
}
