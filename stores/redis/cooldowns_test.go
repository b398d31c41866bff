package redisstore

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

// TestMain is also each process of a fleet.
func TestMain(m *testing.M) {
	if os.Getenv(childURL) != "" {
		if err := child(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// do runs one command on the server.
func do(t testing.TB, s *Store, command ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := s.connected(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := client.Do(ctx, client.B().Arbitrary(command...).Build())
	if err := r.Error(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return r
}

func TestCooldownsKeepTheRules(t *testing.T) {
	server := redistest.Own(t) // it is stopped and emptied
	config := func(world string) Config { return Config{URL: server.URL, Namespace: namespaceOf(world)} }
	storetest.TestCooldowns(t, access(config, flush(config), pausing(server), (*Store).Cooldowns))
}

func TestBucketsKeepTheRules(t *testing.T) {
	server := redistest.Own(t)
	config := func(world string) Config { return Config{URL: server.URL, Namespace: namespaceOf(world)} }
	storetest.TestBuckets(t, access(config, flush(config), pausing(server), (*Store).Buckets))
	s := open(t, config("ttl"))
	if _, err := s.Buckets().Exchange(t.Context(), middleware.BucketNews{
		Name: "b", Replica: "r", Number: 1, Capacity: time.Hour, Taken: time.Minute,
	}); err != nil {
		t.Fatal(err)
	}
	keys, err := do(t, s, "KEYS", "ttl:*").AsStrSlice()
	if err != nil || len(keys) != 3 {
		t.Errorf("the keys of a bucket are %q, %v", keys, err)
	}
	for _, key := range keys {
		if ttl, err := do(t, s, "PTTL", key).AsInt64(); err != nil || ttl <= 0 || ttl > 120_000 {
			t.Errorf("%s expires in %d ms (%v)", key, ttl, err)
		}
	}
}

// access reaches stores of a server, which is emptied by lose and away while down.
func access[S any](
	config func(world string) Config, lose func(*testing.T, string), down func(*testing.T, string) func(), of func(*Store) S,
) storetest.Access[S] {
	return storetest.Access[S]{
		Open: func(t *testing.T, world string) S {
			t.Helper()
			return of(open(t, config(world)))
		},
		Lose: lose, Down: down,
	}
}

func flush(config func(world string) Config) func(*testing.T, string) {
	return func(t *testing.T, world string) {
		t.Helper()
		do(t, open(t, config(world)), "FLUSHALL")
	}
}

func pausing(server *redistest.Server) func(*testing.T, string) func() {
	return func(t *testing.T, _ string) func() {
		t.Helper()
		server.Pause(t)
		return func() { server.Resume(t) }
	}
}

// namespaceOf makes a world a namespace.
func namespaceOf(world string) string {
	b := []byte(world)
	for i, c := range b {
		if c < 'a' || c > 'z' {
			b[i] = '-'
		}
	}
	return string(b)
}

func TestEveryKeyExpiresAndThereAreAsManyAsNames(t *testing.T) {
	server := redistest.Own(t)
	s := open(t, Config{URL: server.URL})
	store := s.Cooldowns()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 2000 {
				key := middleware.CooldownKey{Scope: middleware.Itself, Name: fmt.Sprint("d", (worker+i)%10)}
				n := middleware.CooldownNews{Base: uint64(i), Fresh: true, Left: time.Duration(i%2) * time.Minute}
				got, err := store.Rest(t.Context(), key, n)
				if err == nil {
					got, err = store.Probe(t.Context(), key, n, fmt.Sprint(worker, i), time.Hour)
				}
				if err == nil && i%3 == 0 {
					_, err = store.End(t.Context(), key, got.Gen, 0, true)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	keys, err := do(t, s, "KEYS", "*").AsStrSlice()
	if err != nil || len(keys) != 10 {
		t.Errorf("%d keys of 10 names: %v", len(keys), err)
	}
	for _, key := range keys {
		ttl, err := do(t, s, "PTTL", key).AsInt64()
		if d := time.Duration(ttl) * time.Millisecond; err != nil || d <= 59*time.Minute || d > 61*time.Minute+time.Second {
			t.Errorf("%s expires in %v (%v), want up to an hour after its rest", key, d, err)
		}
	}
}

func TestOpenSaysWhatIsWrongAndShowsNoPassword(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		says string
	}{
		"nothing":     {Config{}, "names no server"},
		"bad URL":     {Config{URL: "redis://u:hunter2@host:port:x/0"}, "is no address of the form"},
		"both":        {Config{URL: "redis://h:1", Client: rueidis.ClientOption{InitAddress: []string{"h:1"}}}, "both URL and Client"},
		"a namespace": {Config{URL: "redis://h:1", Namespace: "a b"}, `Namespace "a b" has other letters`},
	} {
		s, err := Open(c.cfg)
		if s != nil || err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q and no password", name, err, c.says)
		}
	}
}

func TestAServerThatIsDownIsConnectedToWhenItIsThere(t *testing.T) {
	server := redistest.Own(t)
	server.Kill(t)
	s := open(t, Config{URL: server.URL})
	store := s.Cooldowns()
	key := []middleware.CooldownKey{{Scope: middleware.Itself, Name: "d"}}
	if _, err := store.Read(t.Context(), key); err == nil || strings.Contains(err.Error(), server.URL) {
		t.Errorf("without a server: %v", err)
	}
	server.Restart(t)
	for {
		_, err := store.Read(t.Context(), key)
		if err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Read(t.Context(), key); err == nil {
		t.Error("a Store that is closed answers")
	}
}

func mustString(t *testing.T, r rueidis.RedisResult) string {
	t.Helper()
	text, err := r.ToString()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
