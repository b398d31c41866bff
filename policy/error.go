package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/modelchain/llm/internal/near"
	"go.yaml.in/yaml/v3"
)

// An Error is one thing that is wrong in a file of a policy. It never holds a key.
type Error struct {
	// File is the file as it was named to Load, or as it is called in the directory that was. Line and Column count from 1; 0: the
	// file as a whole.
	File         string
	Line, Column int
	// What is wrong, and how to Mend it. Mend is "" where What tells already.
	What, Mend string
}

// Error is "file:line:column: what is wrong; how to mend it".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, max(e.Column, 1))
	}
	b.WriteString(": " + e.What)
	if e.Mend != "" {
		b.WriteString("; " + e.Mend)
	}
	return b.String()
}

// Errors are all that is wrong in a policy, by file and place.
type Errors []*Error

// Error has a line for each.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return "llm/policy: " + strings.Join(lines, "\n")
}

// Unwrap lists them for errors.As.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// report collects what is wrong.
type report struct {
	errs  Errors
	files []string // in order
}

// mostErrors bounds a report: a file that is no policy at all has no need of more.
const mostErrors = 50

func (r *report) add(file string, n *yaml.Node, what, mend string) {
	e := &Error{File: file, What: what, Mend: mend}
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
	if len(r.errs) >= mostErrors || slices.ContainsFunc(r.errs, func(o *Error) bool { return *o == *e }) {
		return
	}
	r.errs = append(r.errs, e)
}

// err is what was collected, in order, and nil if that is nothing.
func (r *report) err() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b *Error) int {
		return cmp.Or(
			cmp.Compare(slices.Index(r.files, a.File), slices.Index(r.files, b.File)), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
		)
	})
	return r.errs
}

// quoted is a text of a file as an error may show it. What might be a key is not shown.
func quoted(text string) string {
	plain := true // words of usual length
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '_' || r == '-' || r == ' ' }) {
		plain = plain && len(word) <= 16 && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLower(r) })
	}
	if n := len([]rune(text)); n > 60 || n > 19 && !plain {
		return fmt.Sprintf("a text of %d characters", n)
	}
	return fmt.Sprintf("%q", text)
}

// nearest is `did you mean "x"?` for the one of names that text may have been meant as, and "" if there is none.
func nearest(text string, names []string) string {
	if best := near.Word(text, names); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}
