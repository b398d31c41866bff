package llmtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelchain/llm"
)

// Wants is what is expected of an answer. The zero value: that there is one, which is no refusal.
type Wants struct {
	// Mention lists texts that must be in the answer, NotMention those that must not, whatever their case. nil: none.
	Mention, NotMention []string
	// Match and NotMatch are the same with expressions. nil: none.
	Match, NotMatch []*regexp.Regexp
	// Chars, Words and Sentences bound its length. A word is what white space separates, so that Chars is for languages without
	// spaces; a sentence ends with a full stop or its like before white space, and where a line ends, but not with the number of
	// a list, nor with an abbreviation such as "Dr." or "e.g."; one like "U.S." or "etc." ends it before a capital letter. The
	// zero value: no bounds.
	Chars, Words, Sentences Bounds
	// Language is the two-letter code of ISO 639-1 that it must be in, such as "en"; case and region ("en-US") do not count, and
	// "no" is Bokmål. It is told by the script, and then by the statistics of three letters in a row, apart from the other
	// languages of the fixtures and from Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Polish, Portuguese,
	// Russian, Spanish, Swedish and Turkish. Less than some five words cannot be told apart and fail; neither can close
	// relatives, such as Danish and Norwegian, if both are asked for. Russian, Ukrainian and Belarusian are told apart where
	// they have letters of their own; without, and in other languages of one script, a relative that no fixture asks for is
	// taken for the one that is, such as Bulgarian for Russian. Serbian is known in Cyrillic letters alone. "": any.
	Language string
	// Fields are those that the answer, one JSON object and nothing else, must have with a value that is not null. A dot leads
	// into an object: "order.id". nil: it need not be JSON.
	Fields []string
	// Refusal says that the model has to refuse. false: it must not.
	Refusal bool
	// Check says what else is wrong with the answer, such as that it does not follow a JSON Schema: package policy/contract
	// makes one of a contract. It may be called from several goroutines at a time. nil: nothing.
	Check func(*llm.Request, *llm.Response) error
}

// Bounds are the least and the most of something. 0: no bound.
type Bounds struct{ Least, Most int }

func (b Bounds) wrong(n int, what string) string {
	switch {
	case n < b.Least:
		return fmt.Sprintf("%s, fewer than %d", plural(n, what), b.Least)
	case b.Most > 0 && n > b.Most:
		return fmt.Sprintf("%s, more than %d", plural(n, what), b.Most)
	}
	return ""
}

func (w *Wants) check() error {
	for _, b := range []Bounds{w.Chars, w.Words, w.Sentences} {
		if b.Least < 0 || b.Most < 0 || b.Most > 0 && b.Most < b.Least {
			return fmt.Errorf("bounds of %d to %d hold for nothing; use 0 for no bound", b.Least, b.Most)
		}
	}
	for _, list := range [][]string{w.Mention, w.NotMention, w.Fields} {
		if slices.Contains(list, "") {
			return errors.New("one of Mention, NotMention and Fields has an empty text, which says nothing; take it out")
		}
	}
	if slices.Contains(w.Match, nil) || slices.Contains(w.NotMatch, nil) {
		return errors.New("one of Match and NotMatch has a nil expression; take it out")
	}
	if _, known := languageOf(w.Language); w.Language != "" && !known {
		return fmt.Errorf("the language %q is not one that can be told: those are %s; use one of them, or a Check", w.Language,
			strings.Join(slices.Sorted(maps.Keys(languageCodes())), ", "))
	}
	return nil
}

// wrong lists what an answer has that is not wanted.
func (w *Wants) wrong(req *llm.Request, resp *llm.Response, speaks languages) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	switch {
	case w.Refusal && !resp.Refused():
		say("it does not refuse")
	case !w.Refusal && resp.Refused():
		return []string{"it refuses"}
	}
	text := resp.Text()
	lower := strings.ToLower(text)
	for _, m := range w.Mention {
		if !strings.Contains(lower, strings.ToLower(m)) {
			say("it does not mention %q", m)
		}
	}
	for _, m := range w.NotMention {
		if strings.Contains(lower, strings.ToLower(m)) {
			say("it mentions %q", m)
		}
	}
	for _, m := range w.Match {
		if !m.MatchString(text) {
			say("it does not match %s", m)
		}
	}
	for _, m := range w.NotMatch {
		if m.MatchString(text) {
			say("it matches %s", m)
		}
	}
	for _, bad := range []string{
		w.Chars.wrong(utf8.RuneCountInString(strings.TrimSpace(text)), "character"), w.Words.wrong(len(strings.Fields(text)), "word"),
		w.Sentences.wrong(sentences(text), "sentence"), speaks.wrong(text, w.Language), wrongFields(text, w.Fields),
		wrongCheck(w.Check, req, resp),
	} {
		if bad != "" {
			wrong = append(wrong, bad)
		}
	}
	return wrong
}

// wrongCheck is what check says. A panic of it is a failure as well.
func wrongCheck(check func(*llm.Request, *llm.Response) error, req *llm.Request, resp *llm.Response) (bad string) {
	defer func() {
		if v := recover(); v != nil {
			bad = fmt.Sprintf("its check panicked: %v", v)
		}
	}()
	if check == nil {
		return ""
	}
	err := check(req, resp)
	if err == nil {
		return ""
	}
	return cmp.Or(strings.TrimSpace(err.Error()), "its check fails with an error that says nothing; give that a text")
}

func wrongFields(text string, fields []string) string {
	if len(fields) == 0 {
		return ""
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return "it is not one JSON object and nothing else"
	}
	for _, field := range fields {
		var value any = object
		for name := range strings.SplitSeq(field, ".") {
			inner, _ := value.(map[string]any)
			value = inner[name]
		}
		if value == nil {
			return fmt.Sprintf("its field %q is missing or null", field)
		}
	}
	return ""
}
