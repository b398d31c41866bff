// Package tools runs the tools that a model asks for, and has each effect once, also where the process dies in the middle, the
// turn comes again from a queue, or two processes work on the same one.
//
// It stands outside the onion of stages: a retry or a fallback repeats questions to models, never tools. Per turn:
//
//	resp, err := chat.Call(ctx, req)         // req.Tools = executor.Specs()
//	keep resp under the turn's id            // your own storage
//	msg, err := executor.Run(ctx, turn, resp)
//	keep msg                                 // and ask the model again with resp and msg in the conversation
//	executor.Acknowledge(ctx, turn)
//
// # Keys
//
// A call is known by a hash of the turn, the tool's name, its arguments in canonical form (RFC 8785), and its ordinal among
// identical calls of the same answer; see [Key]. The turn is the application's name for one answer of the model. Whoever works
// on that answer again uses the same one, and gets the recorded results. The next answer in the conversation is another turn, so
// a call that is meant again is run again.
//
// # Records
//
// Each call with an effect has a record in a [Store], and no effect begins before the record that says so is durable:
//
//	(none)
//	   | Claim
//	   v
//	requested      nothing has happened; one whose lease is over is taken over   <--+
//	   | Move, durable before the tool begins                                       |
//	   v                                                                            |
//	started        held: the tool runs; held by nobody: in doubt, see below    -----+ ErrNotDone
//	   | Move, with the result
//	   v
//	committed      a repeated call gets the result
//	   | Acknowledge
//	   v
//	acknowledged   a repeated call still does; Prune deletes it once it is old
//
// A record is held by one owner at a time, for a lease that is renewed while the tool runs. Whoever comes meanwhile waits for
// the result, or gets a [*BusyError]. The store sees to it that one of many is first: SQLite for the processes of one machine,
// PostgreSQL for many, both in stores/sql. [NewMemory] forgets.
//
// # Doubt
//
// A record that is started and held by nobody is in doubt: the process died, the tool panicked, ran out of time, or returned an
// error that is not [ErrNotDone]. What follows depends on the tool:
//
//	with Reconcile        it is asked: done, with the result; not done, then it is run; unknown, then the turn fails closed
//	Keyed                 it is run again with the same key, which what it talks to knows
//	Unkeyed               the turn fails closed
//	ReadOnly              never in doubt: not recorded, run each time
//
// To fail closed is to return an *llm.Error with commit state CommitUnknown around a [*DoubtError] that names the record. A
// person finds out what happened and says so with [Executor.MarkDone] or [Executor.MarkNotDone]; [Executor.Doubtful] lists what
// waits for that. Nothing in doubt is deleted, and nothing runs by itself: settling takes a run of the turn.
//
// # What cannot be promised
//
// A process that is stopped for longer than its lease, and then goes on in the middle of a Run, cannot be told from a dead one:
// another may have taken over. A Keyed tool is proof against that, and an Unkeyed one without Reconcile is, since nobody runs it
// again. With a Reconcile that answers ErrNotDone, only a lease that is longer than any pause helps.
//
// If the model is asked again for an answer that was lost, it may ask for other calls than before, and those are others. Keep the
// answer before you run its tools.
package tools
