package llmtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/abadojack/whatlanggo"
)

// languages are those that an answer is told apart from.
type languages map[whatlanggo.Lang]bool

// languageCodes are the languages that can be told, by their codes of ISO 639-1.
func languageCodes() map[string]whatlanggo.Lang {
	codes := map[string]whatlanggo.Lang{"fa": whatlanggo.Pes, "no": whatlanggo.Nob, "yi": whatlanggo.Ydd} // without a code there
	for l := range whatlanggo.Langs {
		if code := l.Iso6391(); code != "" {
			codes[code] = l
		}
	}
	return codes
}

// languageOf is the language of code, whose region and script do not count.
func languageOf(code string) (l whatlanggo.Lang, known bool) {
	primary, _, _ := strings.Cut(strings.ReplaceAll(code, "_", "-"), "-")
	l, known = languageCodes()[strings.ToLower(primary)]
	return l, known
}

// codeOf is the code of l, or what else it is called.
func codeOf(l whatlanggo.Lang) string {
	switch l {
	case whatlanggo.Pes:
		return "fa"
	case whatlanggo.Ydd:
		return "yi"
	}
	if code := l.Iso6391(); code != "" {
		return code
	}
	return l.Iso6393()
}

func languagesOf(fixtures []Fixture) languages {
	all := languages{}
	for _, l := range []whatlanggo.Lang{
		whatlanggo.Arb, whatlanggo.Cmn, whatlanggo.Nld, whatlanggo.Eng, whatlanggo.Fra, whatlanggo.Deu, whatlanggo.Ita, whatlanggo.Jpn,
		whatlanggo.Pol, whatlanggo.Por, whatlanggo.Rus, whatlanggo.Spa, whatlanggo.Swe, whatlanggo.Tur,
	} {
		all[l] = true
	}
	for i := range fixtures {
		if l, known := languageOf(fixtures[i].Wants.Language); known {
			all[l] = true
		}
	}
	return all
}

func (l languages) wrong(text, code string) string {
	if code == "" {
		return ""
	}
	wanted, _ := languageOf(code)
	found := whatlanggo.DetectWithOptions(text, whatlanggo.Options{Whitelist: maps.Clone(l)})
	if found.Script == nil {
		if strings.ContainsFunc(text, unicode.IsLetter) {
			return fmt.Sprintf("it is in letters that are not known, in which language %q is not written", code)
		}
		return fmt.Sprintf("it is not in language %q: it has no letters", code)
	}
	if script := found.Script; !writtenIn(wanted, script, text) {
		name := whatlanggo.Scripts[script]
		if name == "" { // that of two scripts together
			name = "Japanese"
		}
		return fmt.Sprintf("it is in %s letters, in which language %q is not written", name, code)
	}
	if own, told := byLetters(text); told && (wanted == whatlanggo.Rus || wanted == whatlanggo.Ukr) {
		found.Lang, found.Confidence = own, 1
	}
	switch {
	case found.Lang == wanted:
		return ""
	case found.Lang < 0:
		return fmt.Sprintf("it cannot be told to be in language %q; it is too short, or looks like no language asked for", code)
	case !found.IsReliable():
		return fmt.Sprintf("it cannot be told to be in language %q; it looks more like %q", code, codeOf(found.Lang))
	default:
		return fmt.Sprintf("it is in language %q, not %q", codeOf(found.Lang), code)
	}
}

// writtenIn reports whether script, that of text, is one of l: if nothing but l may be found, l is.
func writtenIn(l whatlanggo.Lang, script *unicode.RangeTable, text string) bool {
	if l == whatlanggo.Jpn && script == unicode.Han { // taken for Chinese
		return true
	}
	alone := whatlanggo.DetectWithOptions(text, whatlanggo.Options{Whitelist: map[whatlanggo.Lang]bool{l: true}})
	return alone.Lang == l
}

// byLetters tells Russian, Ukrainian and Belarusian apart by the letters that the others have not.
func byLetters(text string) (l whatlanggo.Lang, told bool) {
	var russian, ukrainian, belarusian int
	for _, r := range strings.ToLower(text) {
		switch r {
		case 'ы', 'э', 'ъ', 'ё':
			russian++
		case 'і', 'ї', 'є', 'ґ':
			ukrainian++
		case 'ў':
			belarusian++
		}
	}
	switch {
	case belarusian > 0 && ukrainian > 0:
		return whatlanggo.Bel, true
	case russian > ukrainian:
		return whatlanggo.Rus, true
	case ukrainian > russian:
		return whatlanggo.Ukr, true
	}
	return 0, false
}

// sentences counts ends of sentences. What stands at the end without one is a sentence too.
func sentences(text string) (n int) {
	for line := range strings.Lines(text) {
		open := false
		runes := []rune(strings.TrimSpace(line))
		for i, r := range runes {
			switch {
			case r == '.' && (abbreviated(runes[:i], runes[i+1:]) || numbers(runes[:i])):
			case strings.ContainsRune("。！？", r), strings.ContainsRune(".!?…", r) && endsHere(runes[i+1:]):
				if open {
					n++
				}
				open = false
			case unicode.IsLetter(r) || unicode.IsNumber(r):
				open = true
			}
		}
		if open {
			n++
		}
	}
	return n
}

// endsHere reports whether white space or nothing follows, after what may close a sentence.
func endsHere(rest []rune) bool {
	for _, r := range rest {
		if !strings.ContainsRune(".!?…\"')]}»”’*", r) {
			return unicode.IsSpace(r)
		}
	}
	return true
}

// neverLast are abbreviations that something belongs to, seldomLast those that may end a sentence, all
// without the last full stop.
const (
	neverLast = " dr mr mrs ms mx prof rev gen sen rep gov capt sgt st mt vs approx e.g i.e cf" +
		" z.b d.h u.a hr hrn fr bzw ca ggf vgl p.ex sr sra srta mme mlle "
	seldomLast = " etc no nr nos inc ltd co corp jr dept est fig art vol pp usw evtl inkl" +
		" jan feb mar apr jun jul aug sep sept oct nov dec "
)

// abbreviated reports whether a full stop between before and after belongs to an abbreviation and ends nothing.
func abbreviated(before, after []rune) bool {
	const longest = 8
	from := len(before)
	for from > 0 && (unicode.IsLetter(before[from-1]) || before[from-1] == '.') {
		if from--; len(before)-from > longest {
			return false
		}
	}
	word := strings.ToLower(string(before[from:]))
	if word == "" {
		return false
	}
	next := slices.IndexFunc(after, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
	if next < 0 {
		return false
	}
	if strings.Contains(neverLast, " "+word+" ") {
		return true
	}
	return (dotted(word) || strings.Contains(seldomLast, " "+word+" ")) && !unicode.IsUpper(after[next])
}

// dotted reports whether word is of single letters, such as "u.s".
func dotted(word string) bool {
	letters := strings.Split(word, ".")
	return len(letters) > 1 && !slices.ContainsFunc(letters, func(l string) bool { return len([]rune(l)) != 1 })
}

// numbers reports whether before, the start of a line, is the number of an item of a list.
func numbers(before []rune) bool {
	const longest = 6 // digits, and marks around them
	text := strings.TrimLeft(string(before[:min(len(before), longest+1)]), " -*#>(")
	return len(before) <= longest && text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsDigit(r) })
}
