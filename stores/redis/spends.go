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

// most is the largest amount that the script counts exactly. It stands for all that is more.
const most = 1<<53 - 1

// amount is n as the script takes it in.
func amount(n int) string { return strconv.FormatInt(min(max(int64(n), 0), most), 10) }

// nano is an amount of US dollars in billionths, rounded up: what is spent is never less. Before that it gives way by as much
// as products of doubles are off.
func nano(usd float64) string {
	n := usd * 1e9
	n = math.Ceil(n - min(n*0x1p-51, 1e-6))
	switch {
	case n < most: // not if it is NaN
		return strconv.FormatInt(int64(max(n, 0)), 10)
	default:
		return strconv.FormatInt(most, 10)
	}
}

// count is what the script says of attempts or tokens.
func count(n int64) int {
	if n >= most {
		return math.MaxInt
	}
	return int(n)
}

// usd is what it says of billionths of a dollar.
func usd(n int64) float64 {
	if n >= most {
		return math.Inf(1)
	}
	return float64(n) / 1e9
}

func (s *spends) run(
	ctx context.Context, op, workflow, id string, is, ceiling llm.Spending, late bool,
) (got middleware.SharedSpend, fits bool, err error) {
	client, err := s.connected(ctx)
	if err != nil {
		return got, false, err
	}
	at := s.namespace + ":v1:spend:{" + shown(workflow) + "}"
	answer, err := s.script.Exec(ctx, client, []string{at, at + ":late"}, []string{
		op, id, amount(is.Attempts), amount(is.Tokens), nano(is.CostUSD),
		amount(ceiling.Attempts), amount(ceiling.Tokens), nano(ceiling.CostUSD), flag(late), flag(is.Estimated),
		strconv.FormatInt(most, 10),
	}).AsIntSlice()
	if err != nil {
		return got, false, fmt.Errorf("redisstore: spend %s: %w", op, err)
	}
	if len(answer) != 6 {
		return got, false, errSpend
	}
	got.Spent = llm.Spending{
		Attempts: count(answer[1]), Tokens: count(answer[2]), CostUSD: usd(answer[3]), Estimated: answer[5] == 1,
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
