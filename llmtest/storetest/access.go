package storetest

import (
	"strings"
	"testing"
)

// Access says how a suite reaches the stores that it tests.
type Access[S any] struct {
	// Open opens a store. Those of one world share all, those of two nothing. It is closed when the test ends.
	Open func(t *testing.T, world string) S
	// Lose makes the world's server forget everything.
	Lose func(t *testing.T, world string)
	// Down makes the world's server fail or stop answering, until up is called.
	Down func(t *testing.T, world string) (up func())
}

// suite is a case of a suite, in a world of its own.
type suite[S any] struct {
	*testing.T
	with  Access[S]
	world string
	store S
}

func begin[S any](t *testing.T, with Access[S], name string) suite[S] {
	t.Helper()
	s := suite[S]{T: t, with: with, world: strings.ReplaceAll(name, " ", "-")}
	s.store = s.open()
	return s
}

func (s *suite[S]) open() S { return s.with.Open(s.T, s.world) }
