// Package benchmarks measures the onion against failsafe-go, the reading of a stream against go-openai's and openai-go's own
// readers, and both alone: make bench. It is a module of its own, so that what it compares with is no dependency of the
// library.
package benchmarks
