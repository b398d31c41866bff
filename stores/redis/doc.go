// Package redisstore shares state between processes through Redis: what one replica learned spares the others.
//
//	store, err := redisstore.Open(redisstore.Config{URL: "redis://redis:6379/0"})
//	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{Store: store.Cooldowns()})
//	buckets := middleware.NewBuckets(middleware.BucketsConfig{Store: store.Buckets()}) // budgets of retries and fallbacks
//	spends := middleware.NewSpends(middleware.SpendsConfig{Store: store.Spends()})     // budgets of workflows
//	limiter := middleware.NewLimiter(middleware.LimiterConfig{Limits: limits, Store: store.Limits()})
//
// Close those four before the store.
//
// It needs Redis 6 or later, or what speaks its protocol with Lua and publish/subscribe, alone, with Sentinel or as a
// cluster. A process has one connection to each server. docs/replicas.md has sizes.
//
// # What is kept
//
// Each rest is one hash, namespace:v1:cool:{scope:name}, written by one script that declares it, by the server's clock. A
// name of other letters than A-Z a-z 0-9 . _ - @ / or of more than 80 stands in its key as a digest. A key is forgotten an hour
// after its rest. Changes are published on the channel namespace:v1:cool, with all that a process needs to know, so that
// nobody reads after one; who loses the connection reads all its names when it is back, and every half a minute.
//
// A bucket is namespace:v1:bucket:{name}, which holds when it will be full, with who was there in …:replicas, for 90 seconds,
// and the number of each replica's last exchange in …:said:replica, for two minutes.
//
// A workflow is one hash, namespace:v1:spend:{workflow}, with a field for every attempt under way, and is kept for a day after
// the last. What was told too late to be reserved is known in …:late, for an hour. Amounts are exact up to 2^53-1 attempts,
// tokens and billionths of a US dollar, which is nine million dollars; what is more counts as without end.
//
// A limit is one hash, namespace:v1:limit:{name/pool} or …{name/pool/key}, which holds what is missing of it, the slots in use
// and what each replica told last, with who was there in …:replicas, who has slots in …:leases and who waits for one in …:line.
// It is kept for two and a half minutes, and as long as it needs to recover.
//
// # When Redis is away
//
// Nothing here waits longer than the context it was given, and no operation is repeated by itself. Open succeeds while the
// server is down; it is connected to when it is there. What holds meanwhile is the matter of package middleware. A replica that
// is promoted is found through Sentinel, a cluster, or an address that leads to it; what it had not yet got is told again by
// who knows it.
package redisstore
