// Package redisstore shares state between processes through Redis: what one replica learned spares the others.
//
//	store, err := redisstore.Open(redisstore.Config{URL: "redis://redis:6379/0"})
//	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{Store: store.Cooldowns()})
//
// It needs Redis 6 or later, or what speaks its protocol with Lua and publish/subscribe, alone, with Sentinel or as a
// cluster. A process has one connection to each server.
//
// # What is kept
//
// Each rest is one hash, namespace:v1:cool:{scope:name}, written by one script that declares it, by the server's clock. A
// name of other letters than A-Z a-z 0-9 . _ - @ / or of more than 80 stands in its key as a digest. A key is forgotten an hour
// after its rest. Changes are published on the channel namespace:v1:cool, with all that a process needs to know, so that
// nobody reads after one; who loses the connection reads all its names when it is back, and every half a minute.
//
// # When Redis is away
//
// Nothing here waits longer than the context it was given, and no operation is repeated by itself. Open succeeds while the
// server is down; it is connected to when it is there. What holds meanwhile is the matter of package middleware.
package redisstore
