package gemini

import (
	"strings"

	"github.com/tidwall/gjson"
	sdk "google.golang.org/genai"

	"github.com/modelchain/llm"
)

// An answer adds up the chunks of one call and hands their content to the sink. Unary and streamed answers go through it
// alike: a whole answer is one chunk.
type answer struct {
	sink   llm.Sink // nil: whole answer only
	blocks []*block
	counts [llm.DeltaEnd]int // blocks of each kind that were told of
	calls  int
	out    int // bytes of content
	n      int // pieces of content

	id, model string
	// finish is the finish reason of the answer, blocked that of a prompt that gets none, message what was said to either.
	finish, blocked, message string
	refusal                  string
	usage                    usage
	extras                   []member

	begun      bool         // a candidate came, or the word that there is none
	chunk      gjson.Result // the newest chunk
	failed     bool         // it reports an error
	strange    bool         // it has nothing of an answer in it
	unread     string       // what came and cannot be read
	sinkFailed bool
}

// A member is a field that this adapter does not read.
type member struct{ name, value string }

// set keeps a copy of s, which is part of a chunk that need not live as long.
func set(to *string, s string) {
	if s != "" && *to != s {
		*to = strings.Clone(s)
	}
}

func (a *answer) finished() bool { return a.finish != "" || a.blocked != "" }

// add takes in a chunk. Its error is the sink's.
func (a *answer) add(chunk gjson.Result) (err error) {
	a.failed, a.strange, a.chunk = false, true, chunk
	chunk.ForEach(func(k, v gjson.Result) bool {
		if v.Type == gjson.Null {
			return true
		}
		switch k.Str {
		case "candidates":
			a.begun, a.strange = true, false
			v.ForEach(func(_, candidate gjson.Result) bool {
				err = a.candidate(candidate)
				return err == nil
			})
		case "usageMetadata":
			a.strange = false
			a.usage.note(v)
			a.keep(k.Str, v.Raw)
		case "promptFeedback":
			a.begun, a.strange = true, false
			a.feedback(v)
			a.keep(k.Str, v.Raw)
		case "modelVersion":
			set(&a.model, v.Str)
		case "responseId":
			set(&a.id, v.Str)
		case "error":
			a.failed = v.IsObject() || v.Str != ""
		default:
			a.keep(k.Str, v.Raw)
		}
		return err == nil
	})
	return err
}

// candidate takes in a piece of the first alternative. More than one is asked for only through Request.Extra, and not handed
// on.
func (a *answer) candidate(c gjson.Result) (err error) {
	var content, finish, message gjson.Result
	first, more := true, false
	c.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "content":
			content = v
		case "index":
			first = v.Int() == 0
		case "finishReason":
			finish = v
		case "finishMessage":
			message, more = v, true
		default:
			more = true
		}
		return true
	})
	if !first {
		return nil
	}
	content.ForEach(func(k, v gjson.Result) bool {
		if k.Str == "parts" {
			v.ForEach(func(_, p gjson.Result) bool {
				err = a.part(p)
				return err == nil
			})
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if finish.Str != "" && finish.Str != string(sdk.FinishReasonUnspecified) { // some servers send that all the while
		set(&a.finish, finish.Str)
	}
	set(&a.message, message.Str)
	if more {
		c.ForEach(func(k, v gjson.Result) bool {
			switch k.Str {
			case "content", "index", "finishReason":
			default:
				a.keep(k.Str, v.Raw)
			}
			return true
		})
	}
	return nil
}

// feedback takes in what the filter says about the prompt.
func (a *answer) feedback(v gjson.Result) {
	if reason := v.Get("blockReason").Str; reason != "" && reason != string(sdk.BlockedReasonUnspecified) {
		set(&a.blocked, reason)
	}
	set(&a.message, v.Get("blockReasonMessage").Str)
}

// hand gives the sink a delta, and remembers whether it failed.
func (a *answer) hand(d llm.Delta) error {
	err := a.sink(d)
	a.sinkFailed = err != nil
	return err
}

// keep keeps a field for Response.Extra; streams repeat theirs with every chunk, and the newest counts.
func (a *answer) keep(name, value string) {
	for i := range a.extras {
		if a.extras[i].name == name {
			a.extras[i].value = value
			return
		}
	}
	if len(a.extras) < 32 {
		a.extras = append(a.extras, member{name, value})
	}
}
