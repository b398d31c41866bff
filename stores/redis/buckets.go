package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/modelchain/llm/middleware"
)

//go:embed bucket.lua
var bucketLua string

// Buckets shares budgets of retries and fallbacks, as middleware.BucketsConfig.Store.
func (s *Store) Buckets() middleware.BucketStore {
	return &buckets{Store: s, script: rueidis.NewLuaScript(bucketLua)}
}

type buckets struct {
	*Store
	script *rueidis.Lua
}

// Exchange is as middleware.BucketStore says.
func (b *buckets) Exchange(ctx context.Context, n middleware.BucketNews) (got middleware.SharedBucket, err error) {
	client, err := b.connected(ctx)
	if err != nil {
		return got, err
	}
	at := b.namespace + ":v1:bucket:{" + shown(n.Name) + "}"
	answer, err := b.script.Exec(ctx, client,
		[]string{at, at + ":replicas", at + ":said:" + shown(n.Replica)},
		[]string{n.Replica, strconv.FormatUint(n.Number, 10), us(n.Capacity), us(n.Taken)}).ToArray()
	if err != nil {
		return got, fmt.Errorf("redisstore: bucket: %w", err)
	}
	if len(answer) != 2 {
		return got, errBucket
	}
	lacks, err := answer[0].AsInt64()
	if err != nil {
		return got, errBucket
	}
	replicas, err := answer[1].AsInt64()
	if err != nil {
		return got, errBucket
	}
	return middleware.SharedBucket{Lacks: time.Duration(lacks) * time.Microsecond, Replicas: int(replicas)}, nil
}
