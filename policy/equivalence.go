package policy

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy/contract"
)

// equivalence is what the contract of a card comes down to.
type equivalence struct {
	validate func(*llm.Request, *llm.Response) error // nil: answers are not checked
	schemas  string                                  // a sum of the files that it was made from
	// until is when time takes a route from a role, by the path of the role. Not there: never.
	until map[string]ending
}

// An ending is the moment at which a route stops satisfying a contract, and the items that end then.
type ending struct {
	at        time.Time
	why, mend string
}

// over reports whether time has taken the route at a moment.
func (e ending) over(now time.Time) bool { return !e.at.IsZero() && !now.Before(e.at) }

// told is what accounts say of a route that time has taken.
func (e ending) told() string { return e.String() + "; " + e.mend }

// String says until when the contract was satisfied and what ended then.
func (e ending) String() string {
	return fmt.Sprintf("it satisfied the contract until %s: %s", contract.Time(e.at), e.why)
}

// endingOf is when time takes a route that satisfies, at zero if it never does.
func endingOf(demands contract.Contract, p contract.Profile) ending {
	e := ending{at: contract.Expires(demands, p)}
	var items, mends []string
	for _, m := range demands.Check(p, e.at) {
		if m.Until.Equal(e.at) && !e.at.IsZero() {
			items = append(items, fmt.Sprintf("%s: %s", m.Item, m.Demanded))
			mends = append(mends, m.Mend)
		}
	}
	if len(items) > 1 && strings.HasPrefix(items[1], "approval.reasons") && strings.HasPrefix(items[0], "approval.workflow") {
		items, mends = items[1:], mends[1:] // the reasons say more
	}
	e.why, e.mend = strings.Join(items, "; "), strings.Join(slices.Compact(mends), "; ")
	return e
}

// A role is a place in which a route stands in, and the reasons for it.
type role struct {
	path, route string
	reasons     []string
	classes     []llm.Class // that the reasons stand for
}

// roles are those of a card, by their paths.
func (c *card) roles() []role {
	var out []role
	for i, f := range c.Fallbacks {
		out = append(out, role{fmt.Sprintf("allowed_fallbacks.%d.route", i), f.Route, f.Reasons, classesOf(f.Reasons)})
	}
	if c.Long != "" {
		long := role{path: "long_context", route: c.Long}
		rows := c.reactions()
		for class := range llm.Class(llm.NumClasses) {
			if rows[class].Elsewhere == middleware.Larger { // to which the token router moves it
				long.reasons, long.classes = append(long.reasons, wordOf(class)), append(long.classes, class)
			}
		}
		out = append(out, long)
	}
	return out
}

// problems reports what cannot be meant in a part of the file, apart from what was wrong when it was read.
func (d *decoder) problems(path string, all []*contract.Problem) {
	for _, p := range all {
		if !d.sound(under(path, p.Item)) {
			continue
		}
		d.badAt(under(path, p.Item), p.Mend, "%s %s", p.Item, p.Text)
	}
}

// profile is what a route states, with what its other keys state where declares says nothing.
func (l *listed) profile() contract.Profile {
	var p contract.Profile
	if l.Declares != nil {
		p = *l.Declares
	}
	has := func(name string) bool { return slices.Contains(l.Capabilities, name) }
	p.Provider, p.Model = l.Provider, l.Model
	if p.Input.WindowTokens == 0 {
		p.Input.WindowTokens = l.Window
	}
	if p.Output.MaxTokens == 0 {
		p.Output.MaxTokens = l.MaxOutput
	}
	if p.Output.JSONSchema == "" && has("schema") {
		p.Output.JSONSchema = contract.SchemaEnforced
	}
	for name, stated := range map[string]*bool{
		"images": &p.Input.Images, "files": &p.Input.Files, "audio": &p.Input.Audio, "prefill": &p.Input.Prefill,
		"json": &p.Output.JSON, "reasoning": &p.Output.Reasoning, "tools": &p.Tools.Calls, "stream": &p.Operation.Streaming,
	} {
		*stated = *stated || has(name)
	}
	if price := l.Price; price != nil {
		if p.Economics.InputUSDPerMillion == nil {
			p.Economics.InputUSDPerMillion = new(max(price.Input, price.CachedInput, price.CacheWrite))
		}
		if p.Economics.OutputUSDPerMillion == nil {
			p.Economics.OutputUSDPerMillion = new(price.Output)
		}
	}
	p.Approvals = slices.Concat(p.Approvals, l.Approvals)
	return p
}

// checkProfile finds what a route cannot mean, or says otherwise in its other keys.
func (l *listed) checkProfile() {
	at := under(l.path, "declares")
	if l.Declares != nil {
		l.problems(at, l.Declares.Valid())
		l.problems(at, l.Declares.Contradicts(l.deployment()))
	}
	l.problems(l.path, contract.Profile{Approvals: l.Approvals}.Valid())
}

// checkApprovals finds approvals for what no card says, which would never count.
func (l *listed) checkApprovals(all *parsed) {
	l.approved(under(l.path, "approvals"), l.Approvals, all)
	if l.Declares != nil {
		l.approved(under(l.path, "declares.approvals"), l.Declares.Approvals, all)
	}
}

func (l *listed) approved(path string, approvals []contract.Approved, all *parsed) {
	var workflows []string
	for _, c := range all.cards {
		workflows = append(workflows, c.Workflow)
	}
	named := !slices.Contains(workflows, "")
	for i, a := range approvals {
		at := under(path, strconv.Itoa(i))
		if named && a.Workflow != "" && !slices.Contains(workflows, a.Workflow) {
			mend := nearest(a.Workflow, workflows)
			if mend == "" {
				mend = "remove the approval, or add the card; the workflows are " + strings.Join(workflows, ", ")
			}
			l.badAt(at+".workflow", mend, "there is no workflow %s", quoted(a.Workflow))
		}
		for j, reason := range a.Reasons {
			if words := wordsFor("fallback"); reason != "" && !slices.Contains(words, reason) {
				place := fmt.Sprintf("%s.reasons.%d", at, j)
				l.notOne(l.at[place], place, words)
			}
		}
	}
}

// contract checks the answer's form and the stand-ins against the contract of a card.
func (c *checks) contract() {
	c.equal.until = map[string]ending{}
	if c.Contract == nil {
		return
	}
	if c.has("contract.approval") {
		c.badAt("contract.approval", "remove it", "the workflow and the reasons of approvals are those of the card")
		return
	}
	c.problems("contract", c.Contract.Valid())
	if !c.sound("contract") {
		return
	}
	c.validator()
	now := time.Now()
	if p := c.all.route(c.Primary); p != nil && p.Declares != nil && p.sound(p.path) {
		c.satisfies(role{path: "primary", route: c.Primary}, *c.Contract, p, now)
	}
	for _, r := range c.roles() {
		p := c.all.route(r.route)
		if p == nil || !p.sound(p.path) {
			continue
		}
		demands := *c.Contract
		demands.Approval = contract.Approval{Workflow: c.Workflow, Reasons: r.reasons}
		c.satisfies(r, demands, p, now)
		if end := endingOf(demands, p.profile()); !end.at.IsZero() {
			c.equal.until[r.path] = end
		}
	}
}

// satisfies reports what a route lacks for a role. What time has taken away switches it off, and the card stays good.
func (c *checks) satisfies(r role, demands contract.Contract, p *listed, now time.Time) {
	for _, m := range demands.Check(p.profile(), now) {
		if !m.Expired() {
			c.badAt(r.path, m.Mend, "the route %s does not satisfy the contract: %s: the workflow demands %s, the route states %s",
				quoted(r.route), m.Item, m.Demanded, m.Stated)
		}
	}
}

// validator makes what checks answers. Files of schemas are those beside the card.
func (c *checks) validator() {
	if !c.has("contract.output") {
		return
	}
	files := &noted{FS: os.DirFS(filepath.Dir(c.file)), dir: filepath.Dir(c.file)}
	check, err := contract.Validator(c.Contract.Output, files)
	c.equal.validate, c.equal.schemas = check, files.sum
	c.all.schemas = append(c.all.schemas, files.names...)
	if err != nil {
		at := "contract.output.json_schema"
		if c.has("contract.output.json_schema_file") {
			at = "contract.output.json_schema_file"
		}
		c.badAt(at, "mend the schema", "the schema of answers cannot be used: %v", err)
	}
}

// noted notes the files that are opened.
type noted struct {
	fs.FS
	dir   string
	names []string
	sum   string
}

func (n *noted) Open(name string) (fs.File, error) {
	path := filepath.Join(n.dir, filepath.FromSlash(name))
	n.names = append(n.names, path)
	n.sum += sumOfFile(name, path, mostBytes)
	return n.FS.Open(name)
}

// untilStage is the stage "satisfies", which takes a route from a role when its approval or its evaluation has run out.
func untilStage(name string, end ending) llm.Stage {
	return llm.Stage{Name: "satisfies", Config: "until " + contract.Time(end.at).String(), Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			if !end.over(time.Now()) {
				return next.Call(ctx, req)
			}
			e := &llm.Error{Class: llm.Unsupported, Owner: llm.OwnerRequest, Deployment: name, Message: end.told()}
			return nil, req.Accounted().Skipped(e)
		})
	}}
}

// standIn is the stack of a route in a role that no Fallback moves to, which would mind its end by itself.
func (n *onion) standIn(r role, stack llm.Caller) llm.Caller {
	if end, ok := n.equal.until[r.path]; ok {
		return llm.New(untilStage(r.route, end)).Then(stack)
	}
	return stack
}

// Expired lists the routes that time has taken from a workflow by the moment at, since an approval has ended or an evaluation is
// too old, with the item that ended: they are not called. A moment to come tells what is about to happen. nil: there are none.
func (s *Set) Expired(at time.Time) Errors {
	var out report
	now := s.now.Load()
	out.files = now.files
	for _, name := range now.order {
		f := now.flows[name]
		for _, r := range f.card.roles() {
			if end := f.equal.until[r.path]; end.over(at) {
				d := &decoder{report: &out, file: f.doc.file, at: f.doc.at}
				d.badAt(r.path, end.mend, "the route %s satisfied the contract of %s until %s: %s", quoted(r.route), quoted(name),
					contract.Time(end.at), end.why)
			}
		}
	}
	_ = out.err() // puts them in order
	return out.errs
}
