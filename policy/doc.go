// Package policy builds gateways from policy cards: YAML in, Callers out.
//
// A team writes for each workflow what may be spent on a request and what may stand in for what. [Load] reads the cards and the
// routes, which are the deployments, from a file or a directory, and builds the onion of package middleware for each workflow:
//
//	set, err := policy.Load("policies", policy.Options{})
//	…
//	chat, err := set.Caller("support-answer")
//	…
//	resp, err := chat.Call(ctx, req)
//
// A YAML document with workflow is a card, one with routes holds deployments. docs/policy.md has the card, the same onion in Go
// beside it, and all keys; [Schema] is for editors. Reading is strict: an unknown key, a wrong unit or a contradiction is an
// [Error] with file, line and column, and how to mend it.
//
// # What a card says
//
// Reasons are words from one list, [Words]. A route is called for a workflow only if the card names it: as primary, which is the
// first route that is listed where the card has none, as long_context, or as an allowed fallback, and then for its reasons alone.
// What fail_closed_on names ends the call: no retry, no fallback, no queue, no stand-in. It still rests the route, so that others
// do not meet the same failure. Two of its words are always on and may be listed for the reader: unapproved_route and
// uncertain_side_effect.
//
// The ceilings max_total_attempts, max_tokens and max_incremental_cost_usd are a budget of each call, max_elapsed_ms is its
// deadline. replay_safe_until: request_sent makes every request ReplayUnsafe, so that an outcome which is not known is final.
//
// # Providers
//
// The providers of package openai are built in, both APIs. Others bring modules of their own, so the program names them:
//
//	o := policy.Options{Providers: map[string]func(policy.Endpoint) (llm.Caller, error){
//		"anthropic": func(e policy.Endpoint) (llm.Caller, error) {
//			return anthropic.New(anthropic.Config{APIKey: e.APIKey, BaseURL: e.BaseURL, Model: e.Model, HTTPClient: e.HTTPClient}), nil
//		},
//	}}
//
// # Stand-ins that are equivalent
//
// The contract of a card is what stand-ins must satisfy: see package contract. A route states in declares what it is and what it
// passed, its other keys count as stated, and approvals says for which workflow and reasons it was approved, by whom and until
// when. Each role of a stand-in needs an approval for each of its reasons then. A card whose stand-in does not satisfy is refused
// with the item that fails; one whose approval or evaluation runs out is no longer called for that role, which [Set.Expired]
// tells with the item that ended. The primary is what the stand-ins are measured against; if it declares something, that has to
// satisfy too, apart from approvals and what time brings. Answers of every route are held to the output of the contract: what
// lacks a required field is BadOutput; refusals pass. A stream is only checked before it is seen if stream.whole holds it back.
//
// # Reloading
//
// [Set.Reload] reads everything again, [Set.Watch] does so when a file has changed. The new onions take over at once for calls
// that begin then; a bad file is refused while the old ones go on. What was learned of routes that are unchanged is kept.
//
// Workflows with the same cooldown settings and reactions share what rests.
//
// # Many processes
//
// Options.Cooldowns and Options.Buckets take stores that replicas share, such as those of package stores/redis: what one of
// them learned of a route then spares the others. A reload whose card or route differs ends the rest of that route for all.
//
// # Keys
//
// A card never holds a key: a route says which environment variable or file does. Errors, Describe and logs hold none.
package policy
