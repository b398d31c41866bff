package classify

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// A Step is the round in which a built-in row is asked. Sure signs come before vague ones: a typed code means one
// thing, a phrase mostly one, a status often several.
type Step uint8

// The steps, in order.
const (
	StepUser   Step = iota // rows given to New, in the order given
	StepCode               // codes and types that name one failure
	StepText               // phrases of messages
	StepHint               // codes that name a failure where no phrase says better
	StepStatus             // HTTP statuses
	StepVague              // codes that fit many failures; for answers without a status, such as events of a stream
	numSteps
)

var stepNames = [numSteps]string{"user", "code", "text", "hint", "status", "vague"}

// String is the step in lower case.
func (s Step) String() string {
	if s < numSteps {
		return stepNames[s]
	}
	return fmt.Sprintf("step(%d)", uint8(s))
}

// A Rule is one row of the table from evidence to class. Every condition that is set must hold; within one
// condition any entry may. A row with no condition at all is refused.
//
// A row reads the effective status: that of the answer, or the one its body tells where the answer's own was 200.
type Rule struct {
	// Name says which row decided, in Error.Rule. "": made from the provider and the class.
	Name string `json:"name,omitempty"`
	// Provider is the family (see Family) or the provider's own name. "": any. It is no condition by itself.
	Provider string `json:"provider,omitempty"`
	// Step is the round of a built-in row. Rows given to New are asked before all rounds, whatever it says.
	Step Step `json:"-"`

	// Status lists HTTP statuses; 0 stands for a failure without one.
	Status []int `json:"status,omitempty"`
	// Code lists codes, types, reasons or quota ids of the body, in any spelling: case and punctuation do not
	// count. A * stands for anything.
	Code []string `json:"code,omitempty"`
	// Param lists the fields of the request that the provider complains about. A * stands for anything.
	Param []string `json:"param,omitempty"`
	// Phrase lists texts that the messages hold, in lower case. A * stands for up to 120 bytes. A built-in row does not
	// take what an answer quotes from the request for the provider's words.
	Phrase []string `json:"phrase,omitempty"`
	// Pattern must match the messages, or the body where it has none. They are as the provider wrote them, so (?i)
	// helps.
	Pattern *regexp.Regexp `json:"pattern,omitempty"`
	// Phase lists the places where it broke.
	Phase []llm.Phase `json:"-"`
	// MinWait asks for a told wait of at least this. 0: no condition.
	MinWait time.Duration `json:"min_wait,omitempty"`
	// NoWait asks that no wait was told.
	NoWait bool `json:"no_wait,omitempty"`
	// NoBody asks for an empty body.
	NoBody bool `json:"no_body,omitempty"`

	// Veto lists phrases, and VetoCode codes, that keep the row from deciding.
	Veto     []string `json:"veto,omitempty"`
	VetoCode []string `json:"veto_code,omitempty"`

	// Class is the verdict.
	Class llm.Class `json:"class"`
	// Owner overrides the class's own owner. 0: the class's.
	Owner llm.Owner `json:"-"`
	// CoolUntil marks a told reset as a date on which the deployment comes back, however near it is. Waits of an hour and
	// more are that by themselves.
	CoolUntil bool `json:"cool_until,omitempty"`
	// Source says where the row comes from.
	Source string `json:"source,omitempty"`
}

// Validate reports what is wrong with a row, for rows that come from files.
func (r Rule) Validate() error {
	if len(r.Status) == 0 && len(r.Code) == 0 && len(r.Param) == 0 && len(r.Phrase) == 0 && r.Pattern == nil &&
		len(r.Phase) == 0 && r.MinWait == 0 && !r.NoWait && !r.NoBody {
		return fmt.Errorf("classify: rule %q has no condition", r.Name)
	}
	if int(r.Class) >= llm.NumClasses {
		return fmt.Errorf("classify: rule %q has no such class: %d", r.Name, uint8(r.Class))
	}
	if r.MinWait < 0 {
		return fmt.Errorf("classify: rule %q has a negative MinWait", r.Name)
	}
	if r.NoWait && r.MinWait > 0 {
		return fmt.Errorf("classify: rule %q asks for a wait and for none", r.Name)
	}
	for _, list := range [][]string{r.Code, r.Param, r.Phrase, r.Veto, r.VetoCode} {
		for _, s := range list {
			if strings.Trim(s, "* ") == "" {
				return fmt.Errorf("classify: rule %q has an empty condition", r.Name)
			}
		}
	}
	for _, s := range append(slices.Clone(r.Code), r.VetoCode...) {
		if wire.Norm(s) == "" {
			return fmt.Errorf("classify: rule %q has a code without letters or digits: %q", r.Name, s)
		}
	}
	for _, s := range r.Status {
		if s != 0 && (s < 100 || s > 999) {
			return fmt.Errorf("classify: rule %q has no HTTP status: %d", r.Name, s)
		}
	}
	return nil
}

// String is the row in one line.
func (r Rule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", r.Name)
	part := func(name string, list []string) {
		if len(list) > 0 {
			fmt.Fprintf(&b, "%s %s; ", name, strings.Join(list, " | "))
		}
	}
	if len(r.Status) > 0 {
		fmt.Fprintf(&b, "status %s; ", strings.Trim(fmt.Sprint(r.Status), "[]"))
	}
	part("code", r.Code)
	part("param", r.Param)
	part("text", r.Phrase)
	if r.Pattern != nil {
		fmt.Fprintf(&b, "pattern %s; ", r.Pattern)
	}
	for _, p := range r.Phase {
		fmt.Fprintf(&b, "phase %s; ", p)
	}
	if r.MinWait > 0 {
		fmt.Fprintf(&b, "wait >= %s; ", r.MinWait)
	}
	if r.NoWait {
		b.WriteString("no wait told; ")
	}
	if r.NoBody {
		b.WriteString("no body; ")
	}
	part("not", r.Veto)
	part("not code", r.VetoCode)
	fmt.Fprintf(&b, "-> %s", r.Class)
	if r.Owner != llm.OwnerUnknown {
		fmt.Fprintf(&b, ", owner %s", r.Owner)
	}
	if r.CoolUntil {
		b.WriteString(", until a date")
	}
	return b.String()
}

// A row is a Rule made ready to be asked.
type row struct {
	*Rule
	codes, vetoCodes, params []glob
	phrases, vetoes          []phrase
	owner                    llm.Owner
	provider                 string
	trust                    trust
	marks                    uint64 // of codes
}

func compile(r *Rule) *row {
	c := &row{Rule: r, owner: r.Owner, provider: strings.ToLower(r.Provider), trust: trustOf(r)}
	if c.owner == llm.OwnerUnknown {
		c.owner = r.Class.Owner()
	}
	for _, s := range r.Code {
		c.codes = append(c.codes, newGlob(s))
		c.marks |= c.codes[len(c.codes)-1].mark
	}
	for _, s := range r.VetoCode {
		c.vetoCodes = append(c.vetoCodes, newGlob(s))
	}
	for _, s := range r.Param {
		c.params = append(c.params, newGlob(s))
	}
	for _, s := range r.Phrase {
		c.phrases = append(c.phrases, newPhrase(s))
	}
	for _, s := range r.Veto {
		c.vetoes = append(c.vetoes, newPhrase(s))
	}
	return c
}

// matches reports whether every condition of the row holds.
func (r *row) matches(f *finding) bool {
	switch {
	case len(r.Status) > 0 && !slices.Contains(r.Status, f.status),
		len(r.codes) > 0 && (r.marks&f.marks == 0 || !f.hasCode(r.codes)),
		len(r.params) > 0 && !slices.ContainsFunc(r.params, func(g glob) bool { return g.match(f.param()) }),
		len(r.Phase) > 0 && !slices.Contains(r.Phase, f.phase),
		r.MinWait > 0 && (!f.wait.Known || f.wait.D < r.MinWait),
		r.NoWait && f.wait.Known,
		r.NoBody && !f.facts.Empty,
		len(r.phrases) > 0 && !f.holdsAny(r.phrases),
		r.Pattern != nil && !r.Pattern.MatchString(f.raw()),
		len(r.vetoCodes) > 0 && anyCode(r.vetoCodes, f.facts.Codes),
		len(r.vetoes) > 0 && f.holdsAny(r.vetoes),
		r.Step == StepText && !f.believes(r):
		return false
	}
	return true
}

// hasCode is anyCode of the finding's codes, of which it looks only at globs whose mark they bear.
func (f *finding) hasCode(globs []glob) bool {
	for i := range globs {
		if globs[i].mark&f.marks != 0 && slices.ContainsFunc(f.facts.Codes, globs[i].match) {
			return true
		}
	}
	return false
}

func anyCode(globs []glob, codes []string) bool {
	for i := range globs {
		if slices.ContainsFunc(codes, globs[i].match) {
			return true
		}
	}
	return false
}

// A glob matches a code as wire.Norm writes it, with a * at either end or within.
type glob struct {
	parts []string
	mark  uint64 // a bit that a code must bear to match
}

func newGlob(s string) glob {
	parts := strings.Split(s, "*")
	for i := range parts {
		parts[i] = wire.Norm(parts[i])
	}
	g := glob{parts: parts, mark: anyMark}
	if len(parts) == 1 {
		g.mark = markOf(parts[0])
	}
	return g
}

const anyMark = 1 << 63 // every code bears it

// markOf is one of 63 bits, by a code's length and its ends.
func markOf(code string) uint64 {
	if code == "" {
		return anyMark
	}
	return 1 << ((uint(len(code))*7 + uint(code[0])*3 + uint(code[len(code)-1])) % 63)
}

func marksOf(codes []string) uint64 {
	if len(codes) == 0 {
		return 0
	}
	marks := uint64(anyMark)
	for _, c := range codes {
		marks |= markOf(c)
	}
	return marks
}

func (g *glob) match(s string) bool {
	n := len(g.parts)
	if n == 1 {
		return s == g.parts[0]
	}
	if !strings.HasPrefix(s, g.parts[0]) {
		return false
	}
	s = s[len(g.parts[0]):]
	for _, p := range g.parts[1 : n-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, g.parts[n-1])
}

// fprint writes rows grouped by step.
func fprint(w io.Writer, rows []*row) error {
	step := numSteps
	for _, c := range rows {
		if c.Step != step {
			step = c.Step
			if _, err := fmt.Fprintf(w, "%s\n", step); err != nil {
				return err
			}
		}
		line := "  " + c.Rule.String()
		if c.Source != "" {
			line += "  # " + c.Source
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
