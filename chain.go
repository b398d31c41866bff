package llm

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Middleware wraps a Caller in another.
type Middleware func(next Caller) Caller

// A Stage is a named Middleware. Config is what it was made from, printed by Describe; it must not hold secrets.
//
// Wrap may be used alone, without a Chain.
type Stage struct {
	Name   string
	Config any
	Wrap   Middleware
}

// As is s under another name.
func (s Stage) As(name string) Stage {
	s.Name = name
	return s
}

// A Chain is an immutable list of stages, the outermost first: New(a, b).Then(leaf) calls a(b(leaf)). The zero value is
// the empty chain, whose Then is the leaf alone.
type Chain struct{ stages []Stage }

// New makes a chain. A stage without a name or without Wrap is a programming error and panics.
func New(stages ...Stage) Chain { return Chain{}.Append(stages...) }

// Append is c with more stages inside its own. It panics like New.
func (c Chain) Append(stages ...Stage) Chain {
	for i, s := range stages {
		mustStage(s, len(c.stages)+i)
	}
	return Chain{slices.Concat(c.stages, stages)}
}

func mustStage(s Stage, i int) {
	if s.Name == "" {
		panic(fmt.Sprintf("llm: stage %d of the chain has no Name; name it, so that it can be replaced and shown", i))
	}
	if s.Wrap == nil {
		panic(fmt.Sprintf("llm: stage %q of the chain has no Wrap", s.Name))
	}
}

// Replace is c with the stage called name replaced by s, which may have another name. It is an error if no stage or
// several are called so.
func (c Chain) Replace(name string, s Stage) (Chain, error) {
	i, err := c.index(name)
	if err != nil {
		return c, err
	}
	mustStage(s, i)
	stages := slices.Clone(c.stages)
	stages[i] = s
	return Chain{stages}, nil
}

// Without is c without the stage called name. It is an error if no stage or several are called so.
func (c Chain) Without(name string) (Chain, error) {
	i, err := c.index(name)
	if err != nil {
		return c, err
	}
	return Chain{slices.Delete(slices.Clone(c.stages), i, i+1)}, nil
}

func (c Chain) index(name string) (int, error) {
	at, n := -1, 0
	for i, s := range c.stages {
		if s.Name == name {
			at, n = i, n+1
		}
	}
	if n == 1 {
		return at, nil
	}
	if n > 1 {
		return 0, fmt.Errorf("llm: the chain has %d stages called %q; give each its own name with Stage.As", n, name)
	}
	return 0, fmt.Errorf("llm: the chain has no stage %q; it has %s", name, c)
}

// Stages yields the stages, the outermost first.
func (c Chain) Stages() iter.Seq[Stage] { return slices.Values(c.stages) }

// String lists the names of the stages, the outermost first: "retry → classify".
func (c Chain) String() string {
	if len(c.stages) == 0 {
		return "no stages"
	}
	names := make([]string, len(c.stages))
	for i, s := range c.stages {
		names[i] = s.Name
	}
	return strings.Join(names, " → ")
}

// Then builds the onion around leaf, once: state that belongs to a leaf is made here, and calls build nothing. A nil leaf,
// a Deployment without a name or Caller, and a stage whose Wrap returns nil are programming errors and panic.
func (c Chain) Then(leaf Caller) *Pipeline {
	if leaf == nil {
		panic("llm: Then(nil): give the chain a Caller to end in, such as a *llm.Deployment")
	}
	if d, ok := leaf.(*Deployment); ok {
		if err := d.check(); err != nil {
			panic("llm: Then: " + err.Error())
		}
	}
	p := &Pipeline{next: leaf, node: Describe(leaf)}
	for _, s := range slices.Backward(c.stages) {
		next := s.Wrap(p.next)
		if next == nil {
			panic(fmt.Sprintf("llm: Wrap of stage %q returned nil", s.Name))
		}
		node := Node{Name: s.Name, Config: s.Config, Children: []Node{p.node}}
		if d, ok := next.(Describer); ok {
			// A stage that shows its settings knows them better than the configuration it was made from.
			own := d.Describe()
			if own.Config != nil {
				node.Config = own.Config
			}
			if len(own.Children) > 1 { // it has Callers of its own beside what it wraps
				node.Children = append(node.Children, own.Children[1:]...)
			}
		} else {
			next = &link{next, node}
		}
		p.next, p.node = next, node
	}
	return p
}

// link keeps what is beneath a team's own stage visible to the stages around it.
type link struct {
	Caller
	node Node
}

func (l *link) Describe() Node { return l.node }

// A Pipeline is a chain built around a leaf. It is a Caller, safe for concurrent use. The outermost Pipeline of a call
// puts the whole account of attempts on the Response or the *Error that leaves it.
type Pipeline struct {
	next Caller
	node Node
}

// Call answers req through the onion. The error is an *Error.
func (p *Pipeline) Call(ctx context.Context, req *Request) (*Response, error) {
	if req == nil {
		return nil, errNilRequest()
	}
	if p == nil || p.next == nil {
		return nil, &Error{Class: Invalid, Owner: OwnerRequest, Message: "the Pipeline is empty; make one with Chain.Then"}
	}
	r, c, outermost := begin(req)
	resp, err := p.next.Call(ctx, r)
	if resp == nil && err == nil {
		err = &Error{Class: Unknown, Message: "a stage returned neither an answer nor an error"}
	}
	if outermost {
		return c.finish(resp, err)
	}
	return resp, err
}

// Describe is the onion as a tree.
func (p *Pipeline) Describe() Node { return p.node }

// String prints the onion.
func (p *Pipeline) String() string { return p.node.String() }
