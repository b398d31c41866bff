// Package policy builds gateways from policy cards: YAML in, Callers out.
package policy
