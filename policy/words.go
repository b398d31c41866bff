package policy

import (
	"slices"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

// A Word is a reason as cards have it.
type Word struct {
	// Word is what a card says; Meaning is a sentence about it.
	Word, Meaning string
	// Classes are the classes of failure that it stands for. nil: it is always on, and may be listed for the reader.
	Classes []llm.Class
	// Fallback, Closed and Degrade say where it may stand: among the reasons of a fallback, in fail_closed_on, in degrade.for.
	Fallback, Closed, Degrade bool
}

// Words is the list of the reason words. It is a fresh copy.
//
// That a fallback names a reason is the approval for it: quota and auth move nowhere else. A fallback may name neither
// policy, since a refusal is an answer and is not shopped around, nor invalid_request, which fails everywhere.
func Words() []Word {
	on := func(word, meaning string, classes ...llm.Class) Word {
		return Word{Word: word, Meaning: meaning, Classes: classes, Fallback: true, Closed: true, Degrade: true}
	}
	words := []Word{
		on("provider_overload", "the provider sheds load or is unavailable", llm.Overloaded, llm.Unavailable),
		on("provider_unavailable", "server errors, no connection", llm.Unavailable),
		on("pre-stream_timeout", "no answer, or no first token, in time", llm.Timeout, llm.Stalled),
		on("interrupted_stream", "the stream broke before anything was handed out", llm.Interrupted),
		on("rate_limit", "pacing fixes it", llm.RateLimited),
		on("quota", "only billing or a changed limit fixes it", llm.Quota),
		on("context_overflow", "the request does not fit the window; needs a larger one", llm.TooLong),
		on("model_not_found", "the deployment does not serve the model", llm.NotFound),
		on("missing_capability", "the deployment lacks what the request needs", llm.Unsupported),
		on("unusable_output", "an empty answer, cut JSON, failed validation", llm.BadOutput),
		on("invalid_request", "malformed, fails everywhere", llm.Invalid),
		on("auth", "key or permission refused", llm.Auth),
		on("policy", "content policy", llm.Refused),
		on("circuit_open", "not tried: the deployment rests", llm.Cooling),
		on("budget_exhausted", "not tried: time, attempts or money used up", llm.Exhausted),
		on("unknown", "none of these", llm.Unknown),
		{Word: "unapproved_route", Meaning: "always on: no route is called that the workflow does not name", Closed: true},
		{Word: "uncertain_side_effect", Meaning: "always on: what may have acted on the world is not sent again", Closed: true},
	}
	for i := range words {
		switch words[i].Word {
		case "policy", "invalid_request":
			words[i].Fallback, words[i].Degrade = false, false
		case "auth":
			words[i].Degrade = false
		}
	}
	return words
}

// wordsFor are the words that may stand somewhere: "fallback", "closed", "degrade", or "class" for the rows of reactions, which
// names of classes may begin too.
func wordsFor(place string) []string {
	var out []string
	for _, w := range Words() {
		if place == "fallback" && w.Fallback || place == "closed" && w.Closed || place == "degrade" && w.Degrade ||
			place == "class" && w.Classes != nil && w.Word != "policy" {
			out = append(out, w.Word)
		}
	}
	if place == "class" {
		for c := range llm.NumClasses {
			switch name := llm.Class(c).String(); llm.Class(c) {
			case llm.Refused, llm.Canceled, llm.Queued: // they stay what they are
			default:
				if !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// whyNot says why a word that exists may not stand at key.
func whyNot(word, key string) string {
	known := slices.ContainsFunc(Words(), func(w Word) bool { return w.Word == word })
	switch {
	case !known:
		return ""
	case word == "policy":
		return "a refusal is an answer: remove it"
	case word == "invalid_request":
		return "what is malformed fails everywhere: remove it"
	case word == "auth":
		return "a refused key is for the caller to hear of: remove it"
	case strings.HasPrefix(word, "un"):
		return "it is always on and stands in fail_closed_on only: remove it from " + key
	}
	return ""
}

// classesOf are the classes that words stand for, without doubles. A word may be the name of a class.
func classesOf(words []string) []llm.Class {
	var out []llm.Class
	for _, text := range words {
		var classes []llm.Class
		for _, w := range Words() {
			if w.Word == text {
				classes = w.Classes
			}
		}
		var c llm.Class
		if classes == nil && c.UnmarshalText([]byte(text)) == nil {
			classes = []llm.Class{c}
		}
		for _, c := range classes {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// wordOf is the word that stands for a class, for it alone if there is one. It is the name of the class if there is none.
func wordOf(class llm.Class) string {
	word := class.String()
	for _, w := range Words() {
		if slices.Contains(w.Classes, class) {
			if word = w.Word; len(w.Classes) == 1 {
				break
			}
		}
	}
	return word
}

// closedRow is row for a class that fails closed: what it rests stays, since that keeps others from the same failure.
func closedRow(row middleware.Reaction) middleware.Reaction {
	return middleware.Reaction{Cools: row.Cools, Long: row.Long, Closed: true}
}
