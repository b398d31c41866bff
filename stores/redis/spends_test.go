package redisstore

import (
	"strconv"
	"strings"
	"testing"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/llmtest/storetest"
)

func TestSpendsKeepTheRules(t *testing.T) {
	server := redistest.Own(t)
	config := func(world string) Config { return Config{URL: server.URL, Namespace: namespaceOf(world)} }
	storetest.TestSpends(t, access(config, flush(config), pausing(server), (*Store).Spends))
	if _, err := open(t, config("later")).Spends().Settle(t.Context(), "w", "a", llm.Spending{Attempts: 1}, true); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{URL: server.URL})
	keys, err := do(t, s, "KEYS", "*").AsStrSlice()
	if err != nil || len(keys) == 0 {
		t.Errorf("the keys are %q, %v", keys, err)
	}
	for _, key := range keys {
		most := int64(24 * 3600 * 1000)
		if strings.HasSuffix(key, ":late") {
			most = 3600 * 1000
		}
		if ttl, err := do(t, s, "PTTL", key).AsInt64(); err != nil || ttl <= 0 || ttl > most {
			t.Errorf("%s expires in %d ms (%v)", key, ttl, err)
		}
	}
}

func TestSpendsWhatIsSettledLeavesNothing(t *testing.T) {
	url, namespace := redistest.Start(t)
	s := open(t, Config{URL: url, Namespace: namespace})
	store, one := s.Spends(), llm.Spending{Attempts: 1, Tokens: 7, CostUSD: 0.001}
	const calls = 2000
	for i := range calls {
		id := strconv.Itoa(i)
		if _, fits, err := store.Reserve(t.Context(), "w", id, one, llm.Spending{}); err != nil || !fits {
			t.Fatal(fits, err)
		}
		if _, err := store.Settle(t.Context(), "w", id, one, i%100 == 0); err != nil {
			t.Fatal(err)
		}
	}
	key := namespace + ":v1:spend:{w}"
	if n, err := do(t, s, "HLEN", key).AsInt64(); err != nil || n != 3 {
		t.Errorf("after %d attempts that are settled its hash has %d fields, want 3: %v", calls, n, err)
	}
	if n, err := do(t, s, "ZCARD", key+":late").AsInt64(); err != nil || n != calls/100 {
		t.Errorf("of %d late settlements %d are known: %v", calls/100, n, err)
	}
	// Those of more than an hour ago go with the next one.
	do(t, s, "ZADD", key+":late", "1", "long ago")
	if got, err := store.Settle(t.Context(), "w", "late", one, true); err != nil || got.Spent.Attempts != calls+1 {
		t.Errorf("%+v, %v", got.Spent, err)
	}
	if n, err := do(t, s, "ZCARD", key+":late").AsInt64(); err != nil || n != calls/100+1 {
		t.Errorf("%d late settlements are known, want %d: %v", n, calls/100+1, err)
	}
}

func TestAmountsAreNeverLess(t *testing.T) {
	for _, c := range []struct {
		usd  float64
		nano string
	}{
		{0, "0"}, {-1, "0"}, {0.02, "20000000"}, {0.1 + 0.2, "300000000"}, {0.000123456, "123456"}, {1e-18, "1"}, {1.5e-9, "2"},
		{9007199, "9007199000000000"}, {9007199.3, "9007199254740991"}, {1e300, "9007199254740991"},
	} {
		if got := nano(c.usd); got != c.nano {
			t.Errorf("$%v is %s billionths, want %s", c.usd, got, c.nano)
		}
	}
	for n, want := range map[int]string{-1: "0", 0: "0", 7: "7", 1 << 53: "9007199254740991"} {
		if got := amount(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
