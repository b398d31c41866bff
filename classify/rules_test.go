package classify

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelchain/llm"
)

// answerFor builds the least answer that a row speaks of: its first status, one of its codes, one of its phrases.
func answerFor(r *Rule, code, phrase string) *llm.Error {
	status := 400
	switch r.Class { // where the row does not care, the status that such failures mostly have
	case llm.RateLimited, llm.Quota:
		status = 429
	case llm.Overloaded, llm.Unavailable:
		status = 503
	case llm.Auth:
		status = 403
	}
	if r.Step == StepVague {
		status = 200
	}
	for i, s := range r.Status {
		if i == 0 || s == status {
			status = s
		}
	}
	for _, s := range r.Status { // prefer one where the row has a choice
		if s == 400 || s == 429 {
			status = s
			break
		}
	}
	if status == 0 {
		status = 200
	}
	inner := map[string]any{"message": strings.ReplaceAll(phrase, "*", " some ")}
	if code != "" {
		inner["code"] = strings.ReplaceAll(code, "*", "_some_")
	}
	if len(r.Param) > 0 {
		inner["param"] = strings.ReplaceAll(r.Param[0], "*", "[0].content")
	}
	if r.MinWait > 0 {
		inner["retry_after"] = r.MinWait.Seconds()
	}
	body, _ := json.Marshal(map[string]any{"error": inner})
	e := &llm.Error{Provider: r.Provider, Evidence: llm.Evidence{Status: status, Body: string(body)}}
	if r.NoBody {
		e.Evidence.Body = ""
	}
	return e
}

// Every code and every phrase of every row leads to the row's class: none is shadowed by an earlier row that says
// otherwise, and none is misspelled.
func TestEveryEntryLeadsToItsClass(t *testing.T) {
	deciding := map[string]bool{}
	for _, table := range tables() {
		for i := range table {
			r := &table[i]
			codes, texts := r.Code, r.Phrase
			if len(codes) == 0 {
				codes = []string{""}
			}
			if len(texts) == 0 {
				texts = []string{""}
				if r.Pattern != nil {
					texts[0] = "quota exceeded, limit: 0"
				}
			}
			for _, code := range codes {
				for _, text := range texts {
					e := answerFor(r, code, text)
					got := Error(e)
					deciding[got.Rule] = true
					if got.Class != r.Class {
						t.Errorf("%s: code %q text %q status %d: %v by %s, want %v",
							r.Name, code, text, e.Evidence.Status, got.Class, got.Rule, r.Class)
					}
				}
			}
		}
	}
	for _, table := range tables() {
		for i := range table {
			if !deciding[table[i].Name] {
				t.Errorf("row %s never decides", table[i].Name)
			}
		}
	}
}
