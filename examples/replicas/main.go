// Replicas runs three processes of one gateway behind one Redis, lets their provider fail, and prints who learned what from whom.
//
// It starts redis-server from the PATH on a free port, or uses the server at REDIS_URL ("redis://user:password@host:6379/0"),
// where all it writes begins with a name of its own and expires. Providers are on loopback; there is no key.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"
)

func main() {
	if os.Getenv(envReplica) != "" {
		exit(replicaMain(context.Background(), os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, os.Stdout))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "replicas:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run tells the story.
func run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Second)
	defer cancel()
	redis, stop, err := redisServer(ctx)
	if errors.Is(err, errNoRedis) {
		fmt.Fprintln(out, "Install Redis (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis), or set\n"+
			"REDIS_URL to the address of a server such as redis://localhost:6379/0, and run this again.")
		return nil
	}
	if err != nil {
		return err
	}
	defer stop()
	p := newProviders()
	defer p.Close()
	s := &story{out: out, providers: p}
	defer s.end()
	namespace := "example-" + rand.Text()
	for i := range 3 {
		r, err := startReplica(ctx, i+1, redis, namespace, p.URL)
		if err != nil {
			return err
		}
		s.replicas = append(s.replicas, r)
	}
	for _, step := range []func(context.Context) error{s.allIsWell, s.outage, s.probe, s.recovery, s.workflow} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

type story struct {
	out       io.Writer
	providers *providers
	replicas  []*replica
}

func (s *story) end() {
	for _, r := range s.replicas {
		r.end()
	}
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// ask lets a replica ask and says what came of it.
func (s *story) ask(r *replica) error {
	before := s.providers.calls("primary", r.number)
	answered, err := r.ask("ask")
	if err != nil {
		return err
	}
	s.say("   replica %d asks: %s; its calls to the primary: %d", r.number, answered,
		s.providers.calls("primary", r.number)-before)
	return nil
}

func (s *story) askAll() error {
	for _, r := range s.replicas {
		if err := s.ask(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) allIsWell(context.Context) error {
	s.say("1. All is well.")
	return s.askAll()
}

func (s *story) outage(ctx context.Context) error {
	s.say("2. The primary goes down, and replica 1 meets it.")
	s.providers.down.Store(true)
	if err := s.ask(s.replicas[0]); err != nil {
		return err
	}
	for _, r := range s.replicas[1:] {
		st, err := r.await(ctx, func(st state) bool { return st.Rests })
		if err != nil {
			return err
		}
		s.say("   replica %d learned from replica 1: %s rests, %s", r.number, st.Name, st.Class)
	}
	for _, r := range s.replicas[1:] {
		if err := s.ask(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) probe(ctx context.Context) error {
	s.say("3. The rest is over, the primary is still down, and all three ask at once.")
	if err := s.restIsOver(ctx); err != nil {
		return err
	}
	before := s.providers.callers()
	var all sync.WaitGroup
	errs := make([]error, len(s.replicas))
	for i, r := range s.replicas {
		all.Go(func() { _, errs[i] = r.ask("ask") })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	called := 0
	for number, n := range s.providers.callers() {
		if n > before[number] {
			called++
		}
	}
	s.say("   %d of the three called the primary: the probe of all; the others were answered elsewhere", called)
	for _, r := range s.replicas {
		st, err := r.await(ctx, func(st state) bool { return st.Rests && st.Failed == 1 })
		if err != nil {
			return err
		}
		s.say("   replica %d knows: %s rests anew, %d probe failed", r.number, st.Name, st.Failed)
	}
	return nil
}

func (s *story) recovery(ctx context.Context) error {
	s.say("4. The primary is back, the rest is over, and replica 3 asks first.")
	s.providers.down.Store(false)
	if err := s.restIsOver(ctx); err != nil {
		return err
	}
	if err := s.ask(s.replicas[2]); err != nil {
		return err
	}
	for _, r := range s.replicas[:2] {
		st, err := r.await(ctx, func(st state) bool { return !st.Rests })
		if err != nil {
			return err
		}
		s.say("   replica %d learned from replica 3: %s serves again", r.number, st.Name)
	}
	return s.askAll()
}

func (s *story) workflow(context.Context) error {
	s.say("5. A workflow that may make 4 attempts, whoever makes them.")
	for range 2 {
		for _, r := range s.replicas {
			answered, err := r.ask("work")
			if err != nil {
				return err
			}
			s.say("   replica %d asks: %s", r.number, answered)
		}
	}
	return nil
}

// restIsOver waits until a probe of the primary is due.
func (s *story) restIsOver(ctx context.Context) error {
	var until time.Time
	for _, r := range s.replicas {
		if r.last.Until.After(until) {
			until = r.last.Until
		}
	}
	timer := time.NewTimer(time.Until(until) + 100*time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
