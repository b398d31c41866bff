// Package wire reads what providers send when they fail or stream: error bodies, waits, event streams. Bytes go in,
// facts come out; it decides nothing.
package wire
