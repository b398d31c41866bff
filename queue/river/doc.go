// Package riverqueue queues calls that may wait, on River (github.com/riverqueue/river) with SQLite or PostgreSQL. It is not
// called river, because everybody who uses it may import that one too.
//
// The stage middleware.Queue enqueues, and its caller gets a receipt. A worker, in the same process or another, delivers the
// work to the same onion when its time has come, and the result is fetched by the receipt's id.
//
// # What holds
//
//   - When Enqueue has returned a receipt, the work is on disk. It is delivered at least once, or is canceled.
//   - Enqueue waits for the database as long as its context allows, and then only for a commit that has begun. After an error
//     the work is not delivered. Where a commit broke off so that nobody knows its outcome, which takes a connection that is cut,
//     the row is deleted as soon as the database can be asked; only if a worker was faster, or this process ends first, is the
//     work delivered. With an idempotency key nothing is deleted, since the receipt may be another caller's too: ask again with
//     the key.
//   - One worker has a piece of work at a time. It holds it by a lease that it renews while it works.
//   - Each provider call is written down before it begins. What a delivery spent is durable in the same transaction that puts
//     the work back, so that no later delivery forgets it: a budget of N attempts allows N provider calls over all deliveries,
//     also where a worker dies. What the calls of a dead worker cost in tokens and money is not known, and is marked as
//     estimated.
//   - A worker that dies, or is cut off from the database, loses its work after a lease, and another delivers it again. The
//     provider may then have answered twice, of which one answer is recorded. Work that is marked ReplayUnsafe is dead instead
//     if a call had begun. With Config.Relaxed all of this holds for a process that dies, not for a machine that loses power.
//   - A result is kept for Config.Keep after the work ended, whatever River does to its own jobs.
//   - Stop waits for what runs as long as its context allows. What it has to cut off goes back with what it spent.
//   - Work is dead if its onion gave up for good, gave a stand-in or panicked, its budget is spent, its request cannot be read,
//     or it was lost with more workers than WorkerConfig.MaxLost. It keeps the account of its attempts and gives up its key.
//
// What does not hold: that work begins at its very time, since River moves work that was due later each 5 s; and that two
// pieces are delivered in the order in which they came.
//
// # Idempotency
//
// A request with the label "idempotency_key" is queued once for its workflow as long as it waits, runs or has an answer: who
// enqueues it again gets the receipt of the first. The same key with another question is an error; labels and MaxAttempts are no
// part of the question. River's unique jobs are not used for that, since a job does not live as long as its result.
//
// # The database
//
// A SQLite file serves the processes of one machine; PostgreSQL any number of workers. River's tables and the table llm_work
// are made by Open. Give the queue a database in which no other program uses River: whichever worker leads clears away jobs
// that it does not know. The request is stored as it was asked, byte for byte, with all that the user said. Keys are not a part
// of it, and headers and bodies of providers' errors are left out.
package riverqueue
