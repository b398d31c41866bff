package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// Options are what a program adds to its cards. The zero value is usable.
type Options struct {
	// LookupEnv finds the environment variables that hold keys. nil: os.LookupEnv.
	LookupEnv func(name string) (string, bool)
	// HTTPClient makes the requests. nil: a plain client.
	HTTPClient *http.Client
	// Telemetry sets the stage telemetry of each workflow; where its Route is "" it is the workflow's name, and its Cooldowns are
	// those of the policy. The zero value is the default.
	Telemetry middleware.TelemetryConfig
	// Providers make the Callers of providers that are not built in, by the name that routes have in provider; one of a built-in
	// name takes its place. nil: none.
	Providers map[string]func(Endpoint) (llm.Caller, error)
	// Journal keeps a row of every attempt of every workflow, as their cards say. nil: nobody does, and cards that set journal are
	// refused.
	Journal middleware.JournalStore
	// Queue takes work that may wait, of the workflows whose cards set queue_after_ms. nil: those are refused.
	Queue middleware.Queuer
	// Cooldowns shares what rests with all processes that use the same store, such as that of package stores/redis: by the names
	// of routes, quotas and credentials, whatever the card, so that of two cards with other settings the longer rest holds. Close
	// ends what shares it. nil: rests are this process's own.
	Cooldowns middleware.CooldownStore
	// Buckets shares the budgets of retries, by workflow and route, and of fallbacks likewise. Closing it is the caller's. What a
	// card allows to spend is for one request, which is made in one process; for work of several, put the stage of a
	// middleware.Budget that is Shared around the Caller. nil: each process has its own.
	Buckets *middleware.Buckets
}

// A Set is the workflows of a policy. It is safe for concurrent use.
type Set struct {
	path string
	o    Options

	reload    sync.Mutex // held by Reload
	closed    bool       // by Close
	schemas   []string   // the files of schemas that the newest reading named
	now       atomic.Pointer[state]
	mu        sync.Mutex
	workflows map[string]*workflow
}

// state is what one reading of the files led to. It is not written once it is in use.
type state struct {
	flows     map[string]*flow
	order     []string
	leaves    map[string]*leaf
	cooldowns map[string]*middleware.Cooldowns // by their settings
	contents  string                           // what was read, as a sum
	files     []string                         // in order
}

// flow is a workflow as its card has it now.
type flow struct {
	text      string
	contract  string // its text, with a sum of its schemas
	onion     *llm.Pipeline
	cooldowns *middleware.Cooldowns
	memory    *memory
	card      *card
	doc       *decoder
	equal     *equivalence
	windows   map[string]int // of its routes
}

// Load reads a policy: a YAML file of one or more documents, or a directory of files that end in .yaml or .yml, which are read
// in the order of their names; hidden ones are left out. What is wrong in them is an [Errors], all of it at once.
func Load(path string, o Options) (*Set, error) {
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	o.Providers = maps.Clone(o.Providers)
	s := &Set{path: path, o: o, workflows: map[string]*workflow{}}
	s.now.Store(&state{})
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads the files again, and those of the keys. If anything is wrong it returns an error, and what was loaded goes on.
//
// Calls under way end on the onion that they began with; those that begin later get the new one. A workflow whose card and routes
// have not changed keeps its onion and all that it has learned. Else it is built anew; rests, retry budgets and last good answers
// are kept, and those of a route whose definition or key has changed begin afresh. Last good answers end with the contract that
// they were checked against.
func (s *Set) Reload() error {
	s.reload.Lock()
	defer s.reload.Unlock()
	files, err := sources(s.path)
	if err != nil {
		return err
	}
	p := parse(files)
	return s.load(p, sum(files, p))
}

// load takes what was read. contents is its sum, made before the keys are read: a change in between is seen later.
func (s *Set) load(p *parsed, contents string) error {
	if s.closed {
		return errors.New("policy: the Set is closed")
	}
	before := s.now.Load()
	next, err := build(p, &s.o, before)
	s.schemas = p.schemas
	if err != nil {
		return err
	}
	next.contents, next.files = contents+sumOf(s.schemas), p.files
	s.mu.Lock()
	for _, name := range next.order {
		if s.workflows[name] == nil {
			s.workflows[name] = s.workflow(name)
		}
	}
	s.mu.Unlock()
	s.now.Store(next)
	next.refresh(before, s.o.Cooldowns != nil)
	for key, c := range before.cooldowns { // calls on an onion that is no more go on alone
		if next.cooldowns[key] != c {
			_ = c.Close() // it only waits
		}
	}
	return nil
}

// Close ends what shares rests with other processes, after which this one goes on alone; nothing is reloaded any more. It does
// not end the store of Options.Cooldowns, which is to be closed after it. Without one it does nothing.
func (s *Set) Close() error {
	s.reload.Lock()
	defer s.reload.Unlock()
	s.closed = true
	var errs []error
	for _, c := range s.now.Load().cooldowns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// build makes the state after before.
func build(p *parsed, o *Options, before *state) (*state, error) {
	for _, r := range p.routes {
		r.check(o)
		r.checkApprovals(p)
	}
	for _, c := range p.cards {
		(&checks{c, p, o}).check()
	}
	next := &state{flows: map[string]*flow{}, leaves: map[string]*leaf{}, cooldowns: map[string]*middleware.Cooldowns{}}
	sound := len(p.errs) == 0
	for _, c := range p.cards {
		for _, name := range c.used() {
			if r := p.route(name); r != nil && sound && next.leaves[name] == nil {
				next.leaves[name] = r.leaf(o, before.leaves[name])
			}
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	for _, c := range p.cards {
		next.order = append(next.order, c.Workflow)
		next.flows[c.Workflow] = next.flow(c, c.continuers(p), o, before)
	}
	return next, nil
}

// flow builds a workflow, or keeps that of before if nothing has changed.
func (st *state) flow(doc *document, continues []role, o *Options, before *state) *flow {
	c, old := &doc.card, before.flows[doc.Workflow]
	f := &flow{card: c, doc: doc.decoder, equal: &doc.equal}
	text, _ := json.Marshal(c)             //nolint:errchkjson // texts and numbers
	demands, _ := json.Marshal(c.Contract) //nolint:errchkjson // read from YAML
	f.contract = string(demands) + doc.equal.schemas
	f.text = fmt.Sprint(string(text), doc.equal.schemas, doc.equal.until)
	leaves, same := map[string]*llm.Deployment{}, true
	f.windows = map[string]int{}
	for _, name := range c.used() {
		leaves[name] = st.leaves[name].deployment
		f.windows[name] = leaves[name].Window
		same = same && st.leaves[name] == before.leaves[name]
	}
	rests := c.cooldownConfig()
	key := fmt.Sprint(rests)
	if st.cooldowns[key] == nil {
		if st.cooldowns[key] = before.cooldowns[key]; st.cooldowns[key] == nil {
			if o.Cooldowns != nil {
				rests.Store, rests.Meter, rests.Logger = o.Cooldowns, o.Telemetry.Meter, o.Telemetry.Logger
			}
			st.cooldowns[key] = middleware.NewCooldowns(rests)
		}
	}
	if old != nil && old.text == f.text && same {
		f.cooldowns, f.memory, f.onion = old.cooldowns, old.memory, old.onion
		return f
	}
	f.cooldowns, f.memory = st.cooldowns[key], st.remember(c, o, old, before, old != nil && old.contract == f.contract)
	n := &onion{card: c, o: o, leaves: leaves, continues: continues, equal: f.equal, cooldowns: f.cooldowns, k: f.memory}
	f.onion = n.build()
	return f
}

// remember is what a workflow starts with: what it knew of routes that are unchanged.
func (st *state) remember(c *card, o *Options, old *flow, before *state, sameContract bool) *memory {
	m := &memory{retries: map[string]*middleware.RetryBudget{}}
	unchanged := old != nil
	for _, name := range c.used() {
		if st.leaves[name] == before.leaves[name] && old != nil {
			m.retries[name] = old.memory.retries[name]
		} else if before.leaves[name] != nil {
			unchanged = false
		}
		if m.retries[name] == nil {
			m.retries[name] = middleware.NewRetryBudget(o.bucket("retries", c.Workflow, name))
		}
	}
	if unchanged {
		m.estimates = old.memory.estimates
	} else {
		m.estimates = middleware.NewEstimates(middleware.EstimatesConfig{})
	}
	if c.Degrade == nil || c.Degrade.LastGood == nil {
		return m
	}
	// Answers that were good under another contract may lack what this one demands.
	if old != nil && old.memory.lastGood != nil && *old.card.Degrade.LastGood == *c.Degrade.LastGood && sameContract {
		m.lastGood = old.memory.lastGood
		return m
	}
	m.lastGood = middleware.NewLastGood(middleware.LastGoodConfig{
		Entries: c.Degrade.LastGood.Entries, MaxAge: c.Degrade.LastGood.MaxAge.duration(),
	})
	return m
}

// bucket is the configuration of a budget of retries or of moves.
func (o *Options) bucket(of ...string) middleware.RetryBudgetConfig {
	if o.Buckets == nil {
		return middleware.RetryBudgetConfig{}
	}
	return middleware.RetryBudgetConfig{Shared: o.Buckets, Name: strings.Join(of, "/")}
}

// refresh ends the rests of routes that are not what they were. What they share ends with them only where no other route has it.
// With shared rests a route that is only new here is not fresh: what others learned of it holds.
func (st *state) refresh(before *state, shared bool) {
	var fresh, kept []*llm.Deployment
	for name, l := range st.leaves {
		if old := before.leaves[name]; old != l && (old != nil || !shared) {
			fresh = append(fresh, l.deployment)
		} else {
			kept = append(kept, l.deployment)
		}
	}
	for _, d := range fresh {
		shares := func(name func(*llm.Deployment) string) bool {
			return slices.ContainsFunc(kept, func(o *llm.Deployment) bool { return name(o) == name(d) })
		}
		quota := func(d *llm.Deployment) string { return d.Quota }
		credential := func(d *llm.Deployment) string { return d.Credential }
		for _, rests := range st.cooldowns {
			rests.Clear(middleware.Itself, d.Name)
			if d.Quota != "" && !shares(quota) {
				rests.Clear(middleware.SharedQuota, d.Quota)
			}
			if d.Credential != "" && !shares(credential) {
				rests.Clear(middleware.SharedCredential, d.Credential)
			}
		}
	}
}

// Workflows are the names of the workflows, in the order in which their cards are listed.
func (s *Set) Workflows() []string { return slices.Clone(s.now.Load().order) }

// Caller is the gateway of a workflow. It stays the same when the policy is reloaded, and does what the newest one says; if that
// has no such workflow any more, its calls fail as Invalid.
func (s *Set) Caller(workflow string) (llm.Caller, error) {
	if _, err := s.flow(workflow); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workflows[workflow], nil
}

// Describe is the onion of a workflow as it is now. One that is not there is a Node without children.
func (s *Set) Describe(workflow string) llm.Node {
	s.mu.Lock()
	w := s.workflows[workflow]
	s.mu.Unlock()
	if w == nil {
		return llm.Node{Name: "no workflow " + workflow}
	}
	return w.Describe()
}

// workflow is a Caller that stays while the onion inside is exchanged.
type workflow struct {
	set       *Set
	name      string
	telemetry middleware.TelemetryConfig
	outer     *llm.Pipeline
}

func (s *Set) workflow(name string) *workflow {
	w := &workflow{set: s, name: name, telemetry: s.o.Telemetry}
	if w.telemetry.Route == "" {
		w.telemetry.Route = name
	}
	if w.telemetry.Cooldowns == nil {
		w.telemetry.Cooldowns = rests{w}
	}
	w.outer = llm.New(middleware.Telemetry(w.telemetry)).Then(llm.CallerFunc(w.inner))
	return w
}

func (w *workflow) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	return w.outer.Call(ctx, req)
}

func (w *workflow) flow() *flow { return w.set.now.Load().flows[w.name] }

func (w *workflow) inner(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	f := w.flow()
	if f == nil {
		return nil, &llm.Error{
			Class: llm.Invalid, Owner: llm.OwnerRequest,
			Message: fmt.Sprintf("the workflow %q is no longer in the policy; add its card, or call another", w.name),
		}
	}
	return f.onion.Call(ctx, req)
}

func (w *workflow) Describe() llm.Node {
	n := w.outer.Describe()
	f := w.flow()
	if f == nil {
		n.Children = nil
		return n
	}
	n.Children = []llm.Node{f.onion.Describe()}
	if cfg, ok := n.Config.(middleware.TelemetryConfig); ok {
		if _, ours := cfg.Cooldowns.(rests); ours {
			cfg.Cooldowns = f.cooldowns
			n.Config = cfg
		}
	}
	return n
}

// rests are those of a workflow's newest onion.
type rests struct{ w *workflow }

func (r rests) Snapshot() []middleware.CooldownState {
	if f := r.w.flow(); f != nil {
		return f.cooldowns.Snapshot()
	}
	return nil
}
