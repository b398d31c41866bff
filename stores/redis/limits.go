package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/modelchain/llm/middleware"
)

//go:embed limit.lua
var limitLua string

// Limits shares rate limits and calls in flight, as middleware.LimiterConfig.Store.
func (s *Store) Limits() middleware.LimitStore {
	sum := sha1.Sum([]byte(limitLua)) //nolint:gosec // it is how Redis names scripts
	return &limits{Store: s, script: rueidis.NewLuaScript(limitLua), sha: hex.EncodeToString(sum[:])}
}

type limits struct {
	*Store
	script *rueidis.Lua
	sha    string // of the script, as rueidis' own ExecMulti would send the whole of it each time
}

var errLimit = errors.New("redisstore: what Redis says of a limit cannot be read: another version may write to this namespace")

// Exchange is as middleware.LimitStore says. It is one round trip, however many limits there are.
func (l *limits) Exchange(ctx context.Context, news []middleware.LimitNews) ([]middleware.SharedLimit, error) {
	if len(news) == 0 {
		return nil, ctx.Err()
	}
	client, err := l.connected(ctx)
	if err != nil {
		return nil, err
	}
	got := make([]middleware.SharedLimit, len(news))
	if len(news) == 1 {
		exec := l.exec(&news[0])
		got[0], err = decodeLimit(l.script.Exec(ctx, client, exec.Keys, exec.Args))
		return got, err
	}
	commands := make(rueidis.Commands, len(news))
	for i := range news {
		exec := l.exec(&news[i])
		commands[i] = client.B().Evalsha().Sha1(l.sha).Numkeys(int64(len(exec.Keys))).Key(exec.Keys...).Arg(exec.Args...).Build()
	}
	for i, r := range client.DoMulti(ctx, commands...) {
		if e, ok := rueidis.IsRedisErr(r.Error()); ok && e.IsNoScript() { // it has not run, so it is no repetition
			exec := l.exec(&news[i])
			r = l.script.Exec(ctx, client, exec.Keys, exec.Args)
		}
		if got[i], err = decodeLimit(r); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// exec is the script's call for n.
func (l *limits) exec(n *middleware.LimitNews) rueidis.LuaExec {
	at := l.namespace + ":v1:limit:{" + shown(n.Name) + "}"
	args := make([]string, 0, 34)
	args = append(args, n.Replica, strconv.FormatUint(n.Number, 10), us(n.Lease), us(n.Patience),
		strconv.Itoa(n.Limits.InFlight), strconv.Itoa(n.Used.InFlight), flag(n.Refused), us(n.Rest))
	for _, m := range [...]struct {
		minute, burst, used, missing int
		lacks                        time.Duration
	}{
		{n.Limits.Requests, n.Burst.Requests, n.Used.Requests, n.Missing.Requests, n.Lacks.Requests},
		{n.Limits.Input, n.Burst.Input, n.Used.Input, n.Missing.Input, n.Lacks.Input},
		{n.Limits.Output, n.Burst.Output, n.Used.Output, n.Missing.Output, n.Lacks.Output},
		{n.Limits.Tokens, n.Burst.Tokens, n.Used.Tokens, n.Missing.Tokens, n.Lacks.Tokens},
	} {
		args = append(args, strconv.Itoa(m.minute), strconv.Itoa(m.burst), strconv.Itoa(m.used), us(m.lacks),
			strconv.Itoa(m.missing))
	}
	for rest := n.Wants; len(rest) > 0; {
		w, alike := &rest[0], 1
		for alike < len(rest) && rest[alike] == *w {
			alike++
		}
		rest = rest[alike:]
		args = append(args, strconv.Itoa(alike), strconv.Itoa(w.Requests), strconv.Itoa(w.Input), strconv.Itoa(w.Output),
			strconv.Itoa(w.Tokens), strconv.Itoa(w.InFlight))
	}
	return rueidis.LuaExec{Keys: []string{at, at + ":replicas", at + ":leases", at + ":line"}, Args: args}
}

func decodeLimit(r rueidis.RedisResult) (got middleware.SharedLimit, err error) {
	a, err := r.AsIntSlice()
	if err != nil {
		return got, fmt.Errorf("redisstore: limit: %w", err)
	}
	if len(a) != 10 {
		return got, errLimit
	}
	d := func(i int) time.Duration { return time.Duration(a[i]) * time.Microsecond }
	return middleware.SharedLimit{
		Granted: int(a[0]), Wait: d(1), Lacks: middleware.LimitLacks{Requests: d(2), Input: d(3), Output: d(4), Tokens: d(5)},
		InFlight: int(a[6]), Replicas: int(a[7]), Share: float64(a[8]) / 1e6, Rest: d(9),
	}, nil
}
