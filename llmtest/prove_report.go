package llmtest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A Verdict is what became of a condition.
type Verdict uint8

// The verdicts.
const (
	Passed     Verdict = iota // the chain did what is expected
	Failed                    // it did not
	NotClaimed                // it does not promise what the condition needs, so nothing is known
)

// String is the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Passed:
		return "passed"
	case Failed:
		return "failed"
	case NotClaimed:
		return "not claimed"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// A Row is what became of a condition.
type Row struct {
	// Condition is its name, Expected what a chain has to do then.
	Condition, Expected string
	// Observed is what the chain did, with its figures; of what is not claimed, what is not promised, and
	// which of Promises would have it tried.
	Observed string
	// Wrong is what of that was not as expected, in a sentence each. nil: nothing.
	Wrong   []string
	Verdict Verdict
	// Took is how long the condition took, in fake time where Fake says so.
	Took time.Duration
	Fake bool
}

// String is the row in a few lines.
func (r *Row) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %s\n    expected: %s\n    observed: %s", r.Verdict, r.Condition, r.Expected, r.Observed)
	for _, w := range r.Wrong {
		b.WriteString("\n    wrong:    " + w)
	}
	return b.String()
}

// A Report is the table of conditions, in order.
type Report struct{ Rows []Row }

// OK reports whether no condition failed and at least one passed. Those that are not claimed count for nothing.
func (r *Report) OK() bool { return r.count(Passed) > 0 && r.count(Failed) == 0 }

func (r *Report) count(v Verdict) (n int) {
	for i := range r.Rows {
		if r.Rows[i].Verdict == v {
			n++
		}
	}
	return n
}

// WriteText writes the table to be read. The error is w's.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for i := range r.Rows {
		b.WriteString(r.Rows[i].String() + "\n")
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d not claimed\n", r.count(Passed), r.count(Failed), r.count(NotClaimed))
	_, err := io.WriteString(w, b.String())
	return err
}

type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitNote `xml:"failure"`
	Skipped *junitNote `xml:"skipped"`
	Out     string     `xml:"system-out"`
}

type junitNote struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the table as JUnit XML, a suite of that name with a case for each condition: one that failed is a failure,
// one that is not claimed is skipped. What XML cannot hold becomes U+FFFD. The error is w's.
func (r *Report) WriteJUnit(w io.Writer, suite string) error {
	s := junitSuite{Name: suite, Tests: len(r.Rows), Failures: r.count(Failed), Skipped: r.count(NotClaimed)}
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	var total time.Duration
	for i := range r.Rows {
		row := &r.Rows[i]
		total += row.Took
		c := junitCase{
			Class: suite, Name: row.Condition, Time: seconds(row.Took),
			Out: "expected: " + row.Expected + "\nobserved: " + row.Observed,
		}
		switch row.Verdict {
		case Failed:
			c.Failure = &junitNote{Message: row.Expected, Type: "condition", Text: strings.Join(row.Wrong, "\n")}
		case NotClaimed:
			c.Skipped = &junitNote{Message: "not claimed: " + row.Observed}
		}
		s.Cases = append(s.Cases, c)
	}
	s.Time = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(junitSuites{Suite: s}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
