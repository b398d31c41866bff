// Package benchmarks measures the onion against failsafe-go and alone: make bench. It is a module of its own, so that what
// it compares with is no dependency of the library.
package benchmarks
