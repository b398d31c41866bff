package middleware

import "strings"

// A Reason says why an action was chosen or not.
type Reason uint8

// The reasons.
const (
	ReasonNone Reason = iota

	// Why an action was chosen.
	ReasonRepeats
	ReasonElsewhere
	ReasonMayWait
	ReasonStandIn
	ReasonNothingLeft

	// Why nothing follows at all.
	ReasonHanded
	ReasonLeft
	ReasonUncertain
	ReasonClosed

	// Why the call is not repeated.
	ReasonNotTried
	ReasonAdvice
	ReasonNotHere
	ReasonOnce
	ReasonNoneLeft
	ReasonComesBack
	ReasonLongWait
	ReasonKept

	// Why it is not moved.
	ReasonNowhere
	ReasonNoRoute
	ReasonTried
	ReasonUnapproved
	ReasonNotForThis
	ReasonWindowUnknown
	ReasonNotLarger
	ReasonRests

	// Why it is neither repeated nor moved.
	ReasonDenied
	ReasonUnfunded
	ReasonNoTime
	ReasonNoAttempts
	ReasonNoTokens
	ReasonNoMoney
	ReasonUnpriced

	// Why nothing takes the answer's place.
	ReasonNotOffered
	ReasonWontMend
	ReasonSoon
	numReasons
)

var reasonTexts = [numReasons]string{
	ReasonNone:          "",
	ReasonRepeats:       "the same deployment may answer yet",
	ReasonElsewhere:     "another deployment may answer now",
	ReasonMayWait:       "time may mend it, and the work may wait",
	ReasonStandIn:       "nobody could answer",
	ReasonNothingLeft:   "nothing that is open would help",
	ReasonHanded:        "a part of the answer was handed out",
	ReasonLeft:          "the caller left",
	ReasonUncertain:     "its outcome is not known, and the request may act on the world",
	ReasonClosed:        "the caller has to hear of failures of this class",
	ReasonNotTried:      "it was not tried",
	ReasonAdvice:        "the provider says not to repeat it",
	ReasonNotHere:       "repeating does not mend this class",
	ReasonOnce:          "it was repeated once already",
	ReasonNoneLeft:      "no repetition is left",
	ReasonComesBack:     "it comes back at a date, which is a rest and no pace",
	ReasonLongWait:      "it asks for a longer wait than may be waited",
	ReasonKept:          "the last attempt is kept for another deployment",
	ReasonNowhere:       "this class is not taken elsewhere",
	ReasonNoRoute:       "there is no other deployment",
	ReasonTried:         "the call has tried it",
	ReasonUnapproved:    "it is not approved for this class",
	ReasonNotForThis:    "it does not stand in for this class",
	ReasonWindowUnknown: "its window is unknown, a larger one is needed",
	ReasonNotLarger:     "its window is not larger",
	ReasonRests:         "it rests",
	ReasonDenied:        "a limit does not let it through",
	ReasonUnfunded:      "the budget for that is used up",
	ReasonNoTime:        "it does not fit the time left",
	ReasonNoAttempts:    "no attempt is left",
	ReasonNoTokens:      "it does not fit the tokens left",
	ReasonNoMoney:       "it does not fit the money left",
	ReasonUnpriced:      "its price is not known, and there is a ceiling of money",
	ReasonNotOffered:    "there is none",
	ReasonWontMend:      "time does not mend this class",
	ReasonSoon:          "the wait is short enough to be left to the caller",
}

// String is the reason in words.
func (r Reason) String() string {
	if r < numReasons {
		return reasonTexts[r]
	}
	return "no reason"
}

// String is the action and why, and why not what comes before it: "queue: time may mend it, and the work may wait (no retry:
// no repetition is left; no fallback: it rests)".
func (d Decision) String() string {
	text := d.Action.String() + ": " + d.Why.String()
	var not []string
	for _, n := range []struct {
		what string
		why  Reason
	}{{"retry", d.NoRetry}, {"fallback", d.NoFallback}, {"queue", d.NoQueue}, {"stand-in", d.NoDegrade}} {
		if n.why != ReasonNone && n.why != d.Why {
			not = append(not, "no "+n.what+": "+n.why.String())
		}
	}
	if not == nil {
		return text
	}
	return text + " (" + strings.Join(not, "; ") + ")"
}
