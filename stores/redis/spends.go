package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

//go:embed spend.lua
var spendLua string

// Spends shares what workflows spend, as middleware.SpendsConfig.Store.
func (s *Store) Spends() middleware.SpendStore {
	return &spends{Store: s, script: rueidis.NewLuaScript(spendLua)}
}

type spends struct {
	*Store
	script *rueidis.Lua
}

// nano is an amount of US dollars in billionths, rounded up: what is spent is never less.
func nano(usd float64) string { return strconv.FormatInt(int64(math.Ceil(usd*1e9-1e-6)), 10) }

func (s *spends) run(
	ctx context.Context, op, workflow, id string, amount, ceiling llm.Spending, late bool,
) (got middleware.SharedSpend, fits bool, err error) {
	client, err := s.connected(ctx)
	if err != nil {
		return got, false, err
	}
	answer, err := s.script.Exec(ctx, client, []string{s.namespace + ":v1:spend:{" + shown(workflow) + "}"}, []string{
		op, id, strconv.Itoa(amount.Attempts), strconv.Itoa(amount.Tokens), nano(amount.CostUSD),
		strconv.Itoa(ceiling.Attempts), strconv.Itoa(ceiling.Tokens), nano(ceiling.CostUSD), flag(late), flag(amount.Estimated),
	}).AsIntSlice()
	if err != nil {
		return got, false, fmt.Errorf("redisstore: spend %s: %w", op, err)
	}
	if len(answer) != 6 {
		return got, false, errSpend
	}
	got.Spent = llm.Spending{
		Attempts: int(answer[1]), Tokens: int(answer[2]), CostUSD: float64(answer[3]) / 1e9, Estimated: answer[5] == 1,
	}
	got.Age = time.Duration(answer[4]) * time.Microsecond
	return got, answer[0] == 1, nil
}

var errSpend = errors.New("redisstore: what Redis says of a workflow cannot be read: another version may write to this namespace")

// Reserve is as middleware.SpendStore says.
func (s *spends) Reserve(
	ctx context.Context, workflow, id string, want, ceiling llm.Spending,
) (now middleware.SharedSpend, fits bool, err error) {
	return s.run(ctx, "reserve", workflow, id, want, ceiling, false)
}

// Settle is as middleware.SpendStore says.
func (s *spends) Settle(
	ctx context.Context, workflow, id string, is llm.Spending, late bool,
) (middleware.SharedSpend, error) {
	got, _, err := s.run(ctx, "settle", workflow, id, is, llm.Spending{}, late)
	return got, err
}
