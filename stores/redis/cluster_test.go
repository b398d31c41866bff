package redisstore

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/llmtest/storetest"
	"github.com/modelchain/llm/middleware"
)

// cluster is one of three servers, each with a third of the slots.
type cluster struct {
	nodes []*redistest.Server
	// URL is the address of the first, which knows the others.
	URL string
}

// startCluster is a cluster that is up. Its nodes have one password, which the clients are given.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{}
	alone := make([]*Store, 3)
	for i := range alone {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		bus, _ := l.Addr().(*net.TCPAddr)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		n := redistest.Own(t, "cluster-enabled yes", fmt.Sprint("cluster-port ", bus.Port), "cluster-node-timeout 30000")
		c.nodes = append(c.nodes, n)
		alone[i] = c.alone(t, i)
		from, to := i*16384/3, (i+1)*16384/3-1
		do(t, alone[i], "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(from), fmt.Sprint(to))
		if i > 0 {
			u := parsed(t, n.URL)
			do(t, alone[0], "CLUSTER", "MEET", u.Hostname(), u.Port(), fmt.Sprint(bus.Port))
		}
	}
	for i, s := range alone {
		for {
			info := mustString(t, do(t, s, "CLUSTER", "INFO"))
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") {
				break
			}
			if t.Context().Err() != nil {
				t.Fatalf("node %d is not in the cluster: %s", i, info)
			}
			wait(10 * time.Millisecond)
		}
	}
	// Each was made with a password of its own, and a client of a cluster has one.
	u := parsed(t, c.nodes[0].URL)
	password, _ := u.User.Password()
	for _, s := range alone[1:] {
		do(t, s, "CONFIG", "SET", "requirepass", password)
	}
	c.URL = u.String()
	return c
}

func parsed(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// alone is a connection to one node.
func (c *cluster) alone(t *testing.T, i int) *Store {
	t.Helper()
	return open(t, Config{URL: c.nodes[i].URL, Client: rueidis.ClientOption{ForceSingleClient: true}})
}

func TestAClusterKeepsTheRules(t *testing.T) {
	c := startCluster(t)
	alone := []*Store{c.alone(t, 0)}
	password, _ := parsed(t, c.URL).User.Password()
	for i := 1; i < 3; i++ {
		u := parsed(t, c.nodes[i].URL)
		u.User = url.UserPassword("", password)
		alone = append(alone, open(t, Config{URL: u.String(), Client: rueidis.ClientOption{ForceSingleClient: true}}))
	}
	config := func(world string) Config { return Config{URL: c.URL, Namespace: namespaceOf(world)} }
	lose := func(t *testing.T, _ string) {
		t.Helper()
		for _, s := range alone {
			do(t, s, "FLUSHALL")
		}
	}
	down := func(t *testing.T, _ string) func() {
		t.Helper()
		for _, n := range c.nodes {
			n.Pause(t)
		}
		return func() {
			for _, n := range c.nodes {
				n.Resume(t)
			}
		}
	}
	t.Run("cooldowns", func(t *testing.T) {
		storetest.TestCooldowns(t, access(config, lose, down, (*Store).Cooldowns))
	})
	t.Run("buckets", func(t *testing.T) {
		storetest.TestBuckets(t, access(config, lose, down, (*Store).Buckets))
	})
	t.Run("spends", func(t *testing.T) {
		storetest.TestSpends(t, access(config, lose, down, (*Store).Spends))
	})
	t.Run("limits", func(t *testing.T) {
		storetest.TestLimits(t, access(config, lose, down, (*Store).Limits))
	})
	t.Run("keys lie in all nodes", func(t *testing.T) {
		lose(t, "")
		store := open(t, Config{URL: c.URL}).Cooldowns()
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				key := middleware.CooldownKey{Scope: middleware.Itself, Name: fmt.Sprint("d", i)}
				if _, err := store.Rest(t.Context(), key, middleware.CooldownNews{Left: time.Minute}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		sum := int64(0)
		for i, s := range alone {
			n, err := do(t, s, "DBSIZE").AsInt64()
			if err != nil || n == 0 {
				t.Errorf("node %d has %d of 60 keys, %v", i, n, err)
			}
			sum += n
		}
		if sum != 60 {
			t.Errorf("there are %d keys of 60 names", sum)
		}
	})
}
