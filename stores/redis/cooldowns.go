package redisstore

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/modelchain/llm/middleware"
)

//go:embed cooldown.lua
var cooldownLua string

// Cooldowns shares rests, as middleware.CooldownConfig.Store.
func (s *Store) Cooldowns() middleware.CooldownStore {
	return &cooldowns{
		Store: s, script: rueidis.NewLuaScript(cooldownLua), channel: s.namespace + ":v1:cool",
	}
}

type cooldowns struct {
	*Store
	script  *rueidis.Lua
	channel string
}

// cooldownOp is one call of the script.
type cooldownOp struct {
	op    string
	news  middleware.CooldownNews
	token string
	lease time.Duration
	force bool
}

// us rounds up: a rest must not end early.
func us(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Microsecond-1)/time.Microsecond), 10)
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func (c *cooldowns) cooldownArgs(key middleware.CooldownKey, o *cooldownOp) []string {
	n := &o.news
	return []string{
		o.op, c.channel, key.Scope.String(), key.Name,
		strconv.FormatUint(n.Base, 10), flag(n.Fresh), us(n.Ago), us(n.Left),
		strconv.Itoa(n.Failed), n.Cause.Class.String(), n.Cause.Why, n.Cause.Deployment, us(n.Cause.Asked),
		o.token, us(o.lease), flag(o.force),
	}
}

// plain is a name that a key can show.
var plain = regexp.MustCompile(`^[A-Za-z0-9._@/-]{1,80}$`)

// shown is name in a key: itself or a digest, which begins with what no name has.
func shown(name string) string {
	if plain.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "~" + hex.EncodeToString(sum[:16])
}

// key is where a rest is. The braces choose its place in a cluster.
func (c *cooldowns) key(k middleware.CooldownKey) string {
	return c.channel + ":{" + k.Scope.String() + ":" + shown(k.Name) + "}"
}

func (c *cooldowns) run(ctx context.Context, key middleware.CooldownKey, o *cooldownOp) (middleware.SharedCooldown, error) {
	client, err := c.connected(ctx)
	if err != nil {
		return middleware.SharedCooldown{}, err
	}
	answer, err := c.script.Exec(ctx, client, []string{c.key(key)}, c.cooldownArgs(key, o)).ToString()
	if err != nil {
		return middleware.SharedCooldown{}, fmt.Errorf("redisstore: cooldown %s: %w", o.op, err)
	}
	return decodeCooldown(answer)
}

// Rest is as middleware.CooldownStore says.
func (c *cooldowns) Rest(
	ctx context.Context, key middleware.CooldownKey, news middleware.CooldownNews,
) (middleware.SharedCooldown, error) {
	return c.run(ctx, key, &cooldownOp{op: "rest", news: news})
}

// Probe is as middleware.CooldownStore says.
func (c *cooldowns) Probe(
	ctx context.Context, key middleware.CooldownKey, news middleware.CooldownNews, token string, lease time.Duration,
) (middleware.SharedCooldown, error) {
	return c.run(ctx, key, &cooldownOp{op: "probe", news: news, token: token, lease: lease})
}

// Free is as middleware.CooldownStore says.
func (c *cooldowns) Free(ctx context.Context, key middleware.CooldownKey, token string) (middleware.SharedCooldown, error) {
	return c.run(ctx, key, &cooldownOp{op: "free", token: token})
}

// End is as middleware.CooldownStore says.
func (c *cooldowns) End(
	ctx context.Context, key middleware.CooldownKey, base uint64, ago time.Duration, force bool,
) (middleware.SharedCooldown, error) {
	return c.run(ctx, key, &cooldownOp{op: "end", news: middleware.CooldownNews{Base: base, Ago: ago}, force: force})
}

// Read is as middleware.CooldownStore says.
func (c *cooldowns) Read(ctx context.Context, keys []middleware.CooldownKey) ([]middleware.SharedCooldown, error) {
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	client, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	execs := make([]rueidis.LuaExec, len(keys))
	for i, k := range keys {
		execs[i] = rueidis.LuaExec{Keys: []string{c.key(k)}, Args: c.cooldownArgs(k, &cooldownOp{op: "read"})}
	}
	got := make([]middleware.SharedCooldown, len(keys))
	for i, r := range c.script.ExecMulti(ctx, client, execs...) {
		answer, err := r.ToString()
		if err != nil {
			return nil, fmt.Errorf("redisstore: cooldown read: %w", err)
		}
		if got[i], err = decodeCooldown(answer); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// Watch is as middleware.CooldownStore says.
func (c *cooldowns) Watch(ctx context.Context, watching func(), changed func(middleware.SharedCooldown)) error {
	client, err := c.connected(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.ctx, func() { cancel(errClosed) })
	defer stop()
	subscribed := make(chan struct{}, 1)
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			select {
			case subscribed <- struct{}{}:
			default:
			}
		}
	})
	// The hook runs where nothing may wait, and messages elsewhere, so both meet in this goroutine.
	messages, done := make(chan string, 1024), make(chan error, 1)
	c.ended.Go(func() {
		done <- client.Receive(hooked, client.B().Subscribe().Channel(c.channel).Build(), func(m rueidis.PubSubMessage) {
			select {
			case messages <- m.Message:
			case <-ctx.Done():
			}
		})
	})
	for {
		select {
		case <-subscribed:
			watching()
		case m := <-messages:
			s, err := decodeCooldown(m)
			if err != nil {
				cancel(err)
				return errors.Join(err, <-done)
			}
			changed(s)
		case err := <-done:
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			if err == nil {
				err = errors.New("the subscription ended")
			}
			return fmt.Errorf("redisstore: watching: %w", err)
		}
	}
}

var (
	errCooldown = errors.New("redisstore: what Redis says of a cooldown cannot be read: another version may write to this namespace")
	errBucket   = errors.New("redisstore: what Redis says of a bucket cannot be read: another version may write to this namespace")
)

// decodeCooldown reads what the script answers: texts, each after its length in bytes.
func decodeCooldown(answer string) (s middleware.SharedCooldown, err error) {
	var f [14]string
	for i := range f {
		length, rest, ok := strings.Cut(answer, ":")
		n, bad := strconv.Atoi(length)
		if !ok || bad != nil || n < 0 || n > len(rest) {
			return s, errCooldown
		}
		f[i], answer = rest[:n], rest[n:]
	}
	switch f[0] {
	case middleware.Itself.String():
		s.Scope = middleware.Itself
	case middleware.SharedQuota.String():
		s.Scope = middleware.SharedQuota
	case middleware.SharedCredential.String():
		s.Scope = middleware.SharedCredential
	}
	number := func(text string) (n int64) {
		if text == "" {
			return 0
		}
		n, bad := strconv.ParseInt(text, 10, 64)
		if bad != nil {
			err = errCooldown
		}
		return n
	}
	at := func(text string) time.Time {
		if n := number(text); n != 0 {
			return time.UnixMicro(n)
		}
		return time.Time{}
	}
	s.Name, s.Now, s.Gen, s.Resting = f[1], at(f[2]), uint64(max(number(f[3]), 0)), f[4] == "1"
	s.Since, s.Until, s.Token, s.Lease = at(f[5]), at(f[6]), f[7], at(f[8])
	s.Failed = int(number(f[9]))
	_ = s.Cause.Class.UnmarshalText([]byte(f[10])) // one that this version does not know is Unknown
	s.Cause.Why, s.Cause.Deployment, s.Cause.Asked = f[11], f[12], time.Duration(number(f[13]))*time.Microsecond
	return s, err
}
