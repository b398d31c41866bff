// Package wire reads what providers send when they fail or stream: error bodies, waits, event streams, JSON. Bytes go in,
// facts come out; it decides nothing. It also lays JSON over JSON for what is sent.
package wire
