package wire

import "strings"

// markup reads HTML and XML: the title, or AWS's Code and Message, or the words.
func (w *walker) markup(body string) {
	f := w.f
	lower := strings.ToLower(body)
	if len(lower) != len(body) { // letters whose lower case is longer: the places would not meet
		body = lower
	}
	f.HTML = strings.HasPrefix(lower, "<!doctype html") || strings.Contains(lower, "<html") ||
		strings.Contains(lower, "<head") || strings.Contains(lower, "<body")
	tag := func(name string) string {
		i := strings.Index(lower, "<"+name)
		if i < 0 {
			return ""
		}
		from := strings.IndexByte(lower[i:], '>')
		if from < 0 {
			return ""
		}
		from += i + 1
		n := strings.Index(lower[from:], "</"+name)
		if n < 0 || n > 1000 {
			return ""
		}
		return strings.TrimSpace(words(body[from : from+n]))
	}
	if !f.HTML {
		f.Error = strings.Contains(lower, "<error")
		w.code(tag("code"), &f.Code, 0)
		w.message(tag("message"), 0)
	}
	for _, name := range [...]string{"title", "h1"} {
		if s := tag(name); s != "" {
			w.message(s, 0)
		}
	}
	s := words(body)
	s = s[:min(len(s), 600)]
	if f.Message != "" {
		w.aside++ // the page's words may tell a wait
	}
	w.message(s, 0)
}

// words is markup without its tags.
func words(s string) string {
	var b strings.Builder
	in := false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '<':
			in = true
		case c == '>':
			in = false
			b.WriteByte(' ')
		case !in:
			b.WriteByte(c)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
