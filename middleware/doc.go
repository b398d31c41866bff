// Package middleware holds the stages of the onion: each decides one thing about a call, such as whether to repeat it, move
// it elsewhere, give it less time or let it be. They work alone (Retry(cfg).Wrap(caller)) and in an [llm.Chain].
//
// # The onion
//
// Outermost first:
//
//	the call          telemetry → journal → degrade → queue → budget → deadline → interrupt → token router → fallback
//	each deployment   cooldown → retry → limiter → validate → commit window → attempt timeout → classify
//	the leaf          llm.Deployment
//
// Leave out what you do not need; keep the order of the rest. Its reasons:
//
//   - Telemetry is outermost, so that a call counts once, whatever happened inside. It sees the attempts through the gate it
//     puts in force, so it is needed only there.
//   - Journal is inside telemetry and outside degrade and queue, so that it writes down what they make of a call. It hears of
//     the attempts in the same way, after every other gate let them through.
//   - Deadline is outside everything that repeats or moves a call: there is one budget of time, and attempts and waits share
//     it.
//   - Interrupt is outside everything that could still repeat or move a call: it acts when none of them may.
//   - The token router is outside the fallback: what does not fit goes straight to a list of larger deployments.
//   - Fallback stands between what concerns the call and what concerns one deployment. Each of its callers keeps stages of
//     its own, so all retries of one deployment come before the next.
//   - Hedge takes the place of the fallback, or is one of its callers or has one among its own.
//   - Cooldown is outside retry: it judges the outcome after the retries, and a resting deployment costs no wait.
//   - The limiter is inside retry: each attempt takes its own permit.
//   - Validate is inside retry, so that an unusable answer is asked for again. It sees whole answers only; with a stream
//     that is too late, unless a commit window around it holds all of the stream back.
//   - The commit window is inside retry: what breaks before it opens has not been seen by anybody and may be repeated.
//   - Attempt timeout is inside retry and limits one attempt, not its repetitions or the wait for a permit.
//   - Classify is innermost, so that everybody else sees the class.
//
// # What a failure leads to
//
// Nothing here reads a status code or a provider's text. A failure has an [llm.Class], and one table, [Reactions], says for
// each class whether to repeat, where to move, what to rest, whether to wait and whether anything may stand in. A row of it can
// be overridden wherever it is asked. [Decide] puts the table together with what is left and open, and names one action.
//
// # What stages share
//
// A stage that limits attempts from far outside, such as Deadline, puts an [llm.Gate] in force: the deployment asks it
// before each attempt, and whoever is about to wait or move asks it first. State that several chains share is an object the
// user makes and hands in: [Cooldowns], [RetryBudget], [Estimates].
package middleware
