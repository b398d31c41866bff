// Package adapter is what the adapters of all providers do alike: who calls, how far one HTTP request got, in which form its
// answer comes, when a stream is whole, and what an error of all that carries. An adapter adds its API: how requests are
// written and answers are read.
package adapter
