package llmtest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest/internal/wire"
)

// proving is a condition while it is tried.
type proving struct {
	build func(*Staging) (Promises, error)
	ctx   context.Context //nolint:containedctx // it lives as long as the condition
	fake  bool

	Promises
	primary, backup, long, unapproved *stand
	tool                              *Effect

	unclaimed string

	names map[string]string // the letter of the stand that a deployment was found to be

	mu    sync.Mutex
	hangs bool // a call did not return
	seen  []string
	wrong []*complaint
}

// fresh puts new providers and a new chain in the place of the old ones.
func (p *proving) fresh() error {
	p.unused()
	p.close()
	for _, s := range []struct {
		to     **stand
		letter string
	}{{&p.primary, "p"}, {&p.backup, "b"}, {&p.long, "l"}, {&p.unapproved, "u"}} {
		made, err := p.open(s.letter)
		if err != nil {
			return err
		}
		*s.to = made
	}
	p.tool = &Effect{}
	made, err := p.build(&Staging{
		Primary: p.primary.endpoint(), Backup: p.backup.endpoint(), Long: p.long.endpoint(), Unapproved: p.unapproved.endpoint(),
		Tool: p.tool, Fake: p.fake,
	})
	if err != nil {
		return fmt.Errorf("the chain could not be built: %w", err)
	}
	if err := made.check(); err != nil {
		return err
	}
	p.Promises = made
	if p.Callers <= 0 {
		p.Callers = 20
	}
	return nil
}

func (p *proving) open(letter string) (*stand, error) {
	s := &stand{letter: letter, in: p}
	cfg := ProviderConfig{Routes: []Route{{Func: s.turn}}}
	if p.fake {
		s.Provider = startPipe(cfg)
		return s, nil
	}
	var err error
	s.Provider, err = StartProvider("127.0.0.1:0", cfg)
	return s, err
}

func (p *proving) stands() []*stand {
	return slices.DeleteFunc([]*stand{p.primary, p.backup, p.long, p.unapproved}, func(s *stand) bool { return s == nil })
}

func (p *proving) close() {
	if p.Close != nil {
		p.Close()
	}
	for _, s := range p.stands() {
		s.Close()
	}
	p.Promises, p.primary, p.backup, p.long, p.unapproved = Promises{}, nil, nil, nil, nil
}

// unused checks that nobody asked a deployment that may stand in for nothing.
func (p *proving) unused() {
	if p.unapproved != nil && p.unapproved.Count() > 0 {
		p.fail("the unapproved deployment was called %d times", p.unapproved.Count())
	}
}

// observe notes what the chain did.
func (p *proving) observe(format string, args ...any) {
	p.seen = append(p.seen, fmt.Sprintf(format, args...))
}

// complaint is what was not as expected, and how often.
type complaint struct {
	kind, text string
	times      int
}

// anyTime finds the times in a complaint, which are no reason to say it again.
var anyTime = regexp.MustCompile(`\d[\d.hmsnµ]*s\b`)

// fail notes what was not as expected. The same is noted once, with the number of times.
func (p *proving) fail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := fmt.Sprintf(format, args...)
	kind := anyTime.ReplaceAllString(s, "…")
	if i := slices.IndexFunc(p.wrong, func(c *complaint) bool { return c.kind == kind }); i >= 0 {
		p.wrong[i].times++
		return
	}
	p.wrong = append(p.wrong, &complaint{kind, s, 1})
}

// complaints are what was not as expected, in a sentence each. nil: nothing.
func (p *proving) complaints() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.wrong {
		if c.times > 1 {
			c.text += fmt.Sprintf(" (%d times)", c.times)
		}
		all = append(all, c.text)
	}
	return all
}

// expect is fail unless ok.
func (p *proving) expect(ok bool, format string, args ...any) {
	if !ok {
		p.fail(format, args...)
	}
}

// lacks reports that the chain does not promise what a condition needs, and how a chain that can promises it.
func (p *proving) lacks(ok bool, what, promise string) bool {
	if !ok {
		p.unclaimed = what + "; to have it tried, set Promises." + promise
	}
	return !ok
}

// standsIn reports whether Backup is approved for a class.
func (p *proving) standsIn(c llm.Class) bool { return slices.Contains(p.StandsIn, c) }

// total is how many requests all providers had so far.
func (p *proving) total() (n int) {
	for _, s := range p.stands() {
		n += s.Count()
	}
	return n
}

func (p *proving) queued() int {
	if p.Queued == nil {
		return 0
	}
	return p.Queued()
}

// settle waits until no provider has a request.
func (p *proving) settle() {
	for _, s := range p.stands() {
		s.Wait()
	}
}

// pause lets d pass.
func (p *proving) pause(d time.Duration) error { return wait(p.ctx, d) }

// guard is how long a call may take before the chain is given up.
func (p *proving) guard() time.Duration { return 10*time.Second + 2*p.silence() }

// slack is by how much what takes d may be late.
func (p *proving) slack(d time.Duration) time.Duration {
	if p.fake {
		return d/10 + time.Millisecond
	}
	return d/4 + time.Second
}

// cut is after how many pieces of an answer a stream breaks that is to have been seen, length how many words an answer has.
func (p *proving) cut() int    { return max(p.Held, 0) + 20 }
func (p *proving) length() int { return p.cut() + 20 }

// stand is a provider whose answers are words that tell whose they are and where they belong: "p000 p001 p002" is the primary's.
type stand struct {
	*Provider
	letter string
	in     *proving

	mu    sync.Mutex
	turns []Turn
	did   int
}

func (s *stand) endpoint() Endpoint { return Endpoint{URL: s.URL, Client: s.Client()} }

// say sets what is done from now on; the last turn is repeated.
func (s *stand) say(turns ...Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns, s.did = turns, 0
}

func (s *stand) turn(x Exchange, _ int) Turn {
	s.mu.Lock()
	var t Turn
	if len(s.turns) > 0 {
		t = s.turns[0]
		if s.did++; s.did >= max(t.Times, 1) && len(s.turns) > 1 {
			s.turns, s.did = s.turns[1:], 0
		}
	}
	s.mu.Unlock()
	t.Usage = s.consumed()
	if t.Text == "" && t.Calls == nil && (t.act() == DoAnswer || breaks(t.Do) || leavesOut(t.Do, wire.Done)) {
		t.Text = s.answer()
		if s.in.Continues {
			if t.Text = s.rest(t.Text, x.Body); t.Text == "" {
				t.Do = DoEmpty
			}
		}
	}
	return t
}

// answer is the whole answer.
func (s *stand) answer() string {
	var all []string
	for i := range s.in.length() {
		all = append(all, s.letter+fmt.Sprintf("%03d", i))
	}
	text := strings.Join(all, " ")
	if s.in.Answer != nil {
		return s.in.Answer(text)
	}
	return text
}

// numbered finds the words of answers.
var numbered = regexp.MustCompile(`\b([pblu])(\d{3,})\b`)

// rest is what follows in an answer on the words that a request has of it. "": nothing does.
func (s *stand) rest(answer, request string) string {
	next := 0
	for _, m := range numbered.FindAllStringSubmatch(request, -1) {
		if n, err := strconv.Atoi(m[2]); err == nil {
			next = max(next, n+1)
		}
	}
	if next == 0 {
		return answer
	}
	if at := strings.Index(answer, " "+s.letter+fmt.Sprintf("%03d", next)); at >= 0 {
		return answer[at:]
	}
	return ""
}

// by is the stand whose whole answer a text is. nil: nobody's.
func (p *proving) by(text string) *stand {
	for _, s := range p.stands() {
		if text == s.answer() {
			return s
		}
	}
	return nil
}

// joined reports whether a text is one answer from its first word to its last, whoever said which part of it.
func (p *proving) joined(text string) bool {
	all := numbered.FindAllStringSubmatch(text, -1)
	for i, m := range all {
		if n, err := strconv.Atoi(m[2]); err != nil || n != i {
			return false
		}
	}
	return len(all) == p.length()
}

// An Effect is a tool that acts on the world and whose first run is not heard of again: the work is done, and its answer lost.
// [Prove] gives it to chains that run tools.
type Effect struct {
	mu           sync.Mutex
	done         map[string]int
	runs, looked int
}

// Name is what the model calls it.
func (e *Effect) Name() string { return "refund" }

// Run does the work of a key, each time it is called. The error says that nobody heard of it.
func (e *Effect) Run(_ context.Context, key string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = map[string]int{}
	}
	e.done[key]++
	if e.runs++; e.runs == 1 {
		return fmt.Errorf("the tool was silent for too long: %w", context.DeadlineExceeded)
	}
	return nil
}

// Look reports whether the work of a key was done. It changes nothing.
func (e *Effect) Look(_ context.Context, key string) (done bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looked++
	return e.done[key] > 0, nil
}

func (e *Effect) counts() (runs, looked int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs, e.looked
}
