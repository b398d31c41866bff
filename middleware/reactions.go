package middleware

import (
	"fmt"
	"maps"

	"github.com/modelchain/llm"
)

// Again says whether a failed call is repeated on the same deployment.
type Again uint8

// The answers to "here again?".
const (
	Never  Again = iota
	Once         // one more try, however many the stage allows
	Always       // as often as the stage allows
)

// Elsewhere says where a failed call may move.
type Elsewhere uint8

// The answers to "elsewhere?".
const (
	Nowhere  Elsewhere = iota
	Approved           // only to a Route that names the class
	Larger             // only to a deployment with a larger window
	Anywhere
)

// Scope says what a failure rests.
type Scope uint8

// The scopes.
const (
	Nothing          Scope = iota
	Itself                 // the deployment
	SharedQuota            // every deployment of the same Quota
	SharedCredential       // every deployment of the same Credential
)

// A Reaction is what a class of failure leads to. Whatever it says, a stage whose caller was handed output neither repeats
// nor moves the call.
type Reaction struct {
	Again     Again
	Elsewhere Elsewhere
	Cools     Scope
	// Long rests for CooldownConfig.Long instead of Rest: waiting a minute will not help.
	Long bool
	// Waits says that time may mend it, so that work which may wait can be queued.
	Waits bool
	// Closed says that the caller has to hear of it: neither a queue nor a stand-in takes the place of the error.
	Closed bool
}

// Reactions says what each class leads to. In a stage's configuration it holds the rows that differ from
// [DefaultReactions]; nil changes none.
type Reactions map[llm.Class]Reaction

// DefaultReactions is the table that every stage asks. It is a fresh copy.
func DefaultReactions() Reactions {
	return Reactions{
		llm.Unknown:     {},
		llm.Unavailable: {Again: Always, Elsewhere: Anywhere, Cools: Itself, Waits: true},
		llm.Overloaded:  {Again: Always, Elsewhere: Anywhere, Cools: Itself, Waits: true},
		llm.Timeout:     {Again: Always, Elsewhere: Anywhere, Cools: Itself, Waits: true},
		llm.Stalled:     {Elsewhere: Anywhere, Cools: Itself, Waits: true},
		llm.RateLimited: {Again: Always, Elsewhere: Anywhere, Cools: SharedQuota, Waits: true},
		llm.Quota:       {Elsewhere: Approved, Cools: SharedCredential, Long: true, Waits: true},
		llm.TooLong:     {Elsewhere: Larger},
		llm.NotFound:    {Elsewhere: Anywhere, Cools: Itself},
		llm.Unsupported: {Elsewhere: Anywhere},
		llm.BadOutput:   {Again: Once, Elsewhere: Anywhere},
		llm.Interrupted: {Again: Always, Elsewhere: Anywhere, Cools: Itself, Waits: true},
		llm.Invalid:     {Closed: true},
		llm.Auth:        {Closed: true},
		llm.Refused:     {Closed: true},
		llm.Cooling:     {Elsewhere: Anywhere, Waits: true},
		// Time or attempts that are used up for one deployment may do for another; who moves the call asks first.
		llm.Exhausted: {Elsewhere: Anywhere, Waits: true},
		llm.Canceled:  {Closed: true},
		llm.Queued:    {Closed: true},
	}
}

// defaults is DefaultReactions made ready.
var defaults = Reactions(nil).table()

// table is Reactions made ready for calls.
type table [llm.NumClasses]Reaction

// table panics on a row that is no class and on values that are none, as configuration mistakes do.
func (r Reactions) table() *table {
	var t table
	all := DefaultReactions()
	maps.Copy(all, r)
	for c, row := range all {
		if int(c) >= llm.NumClasses {
			panic(fmt.Sprintf("llm/middleware: Reactions has a row for %v, which is no class", c))
		}
		if row.Again > Always || row.Elsewhere > Anywhere || row.Cools > SharedCredential {
			panic(fmt.Sprintf("llm/middleware: Reactions[%v] has Again %d, Elsewhere %d, Cools %d; use the constants of those types",
				c, row.Again, row.Elsewhere, row.Cools))
		}
		t[c] = row
	}
	return &t
}

func (t *table) of(c llm.Class) Reaction {
	if int(c) < len(t) {
		return t[c]
	}
	return Reaction{}
}
