package llmtest

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A PromptReport is how a prompt did.
type PromptReport struct {
	// System is the prompt.
	System string
	// Scores are those of the deployments, in the order of the chain.
	Scores []PromptScore
	// Lint is what is written for one provider. nil: nothing.
	Lint []PromptFinding

	floor, overall float64
	shows          bool
}

// A PromptScore is how one deployment did.
type PromptScore struct {
	Deployment string
	// Fixtures are in the order of the configuration.
	Fixtures []FixtureScore
}

// A FixtureScore is how one deployment did with one fixture.
type FixtureScore struct {
	Name string
	// Asked is how often it was asked, Passed how many answers were as wanted.
	Asked, Passed int
	// Failures are the others. nil: none.
	Failures []PromptFailure
}

// A PromptFailure is one answer that was not as wanted.
type PromptFailure struct {
	// Sample counts the answers from 1.
	Sample int
	// Reasons say what was wrong, and quote nothing of the answer but what the fixture names.
	Reasons []string
	// Answer is its text. "": there was none.
	Answer string
}

// Share is the share of answers that were as wanted, from 0 to 1. 0 where nothing was asked.
func (s *PromptScore) Share() float64 { return share(s.count()) }

func (s *PromptScore) count() (passed, asked int) {
	for i := range s.Fixtures {
		passed, asked = passed+s.Fixtures[i].Passed, asked+s.Fixtures[i].Asked
	}
	return passed, asked
}

// Share is that of all deployments together. 0 where nothing was asked.
func (r *PromptReport) Share() float64 { return share(r.count()) }

func (r *PromptReport) count() (passed, asked int) {
	for i := range r.Scores {
		p, a := r.Scores[i].count()
		passed, asked = passed+p, asked+a
	}
	return passed, asked
}

func share(passed, asked int) float64 {
	if asked == 0 {
		return 0
	}
	return float64(passed) / float64(asked)
}

// Problems are what fails a test, a sentence each: shares below a floor, and what LintPrompt found. nil: nothing.
func (r *PromptReport) Problems() (list []string) {
	for i := range r.Scores {
		if s := &r.Scores[i]; below(s.Share(), r.floor) {
			passed, asked := s.count()
			_, floor := percents(s.Share(), r.floor)
			list = append(list, fmt.Sprintf("%s answers %d of %d as wanted, which is below the floor of %s%s", visible(s.Deployment),
				passed, asked, floor, s.first()))
		}
	}
	if passed, asked := r.count(); below(r.Share(), r.overall) {
		_, floor := percents(r.Share(), r.overall)
		list = append(list, fmt.Sprintf("all deployments together answer %d of %d as wanted, which is below the floor of %s",
			passed, asked, floor))
	}
	for _, f := range r.Lint {
		list = append(list, "the prompt is not portable: "+f.String())
	}
	return list
}

// same is the difference up to which two shares are the same: sums such as 0.1+0.2 are not exact.
const same = 1e-9

func below(share, floor float64) bool { return share < floor-same }

// percents writes a share and its floor, with as many digits as tell the share from the floor, from none and from all, and show
// the floor as it is, of which two are enough.
func percents(share, floor float64) (string, string) {
	floor = max(floor, 0)
	for digits := 0; ; digits++ {
		write := func(share float64) string { return strconv.FormatFloat(100*share, 'f', digits, 64) + "%" }
		told := func(other float64) bool { return math.Abs(share-other) <= same || write(share) != write(other) }
		shown, _ := strconv.ParseFloat(write(floor)[:len(write(floor))-1], 64) // it was written so
		if told(floor) && told(0) && told(1) && (digits >= 2 || math.Abs(shown-100*floor) <= same) {
			return write(share), write(floor)
		}
	}
}

// visible is name with what does not print escaped, so that no name breaks a line, a column or the terminal.
func visible(name string) string {
	var b strings.Builder
	for _, r := range name {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// first tells the first failure.
func (s *PromptScore) first() string {
	for i := range s.Fixtures {
		if f := &s.Fixtures[i]; len(f.Failures) > 0 {
			return fmt.Sprintf("; first, %s: %s", visible(f.Name), strings.Join(f.Failures[0].Reasons, "; "))
		}
	}
	return ""
}

// String is what WriteText writes.
func (r *PromptReport) String() string {
	var b strings.Builder
	_ = r.WriteText(&b) // a strings.Builder takes everything
	return b.String()
}

// WriteText writes the table of scores, the failures with their reasons, and what LintPrompt found. The error is w's.
func (r *PromptReport) WriteText(w io.Writer) error {
	if len(r.Scores) == 0 {
		_, err := io.WriteString(w, "nothing was tried\n")
		return err
	}
	var b strings.Builder
	r.table(&b)
	for i := range r.Scores {
		s := &r.Scores[i]
		for j := range s.Fixtures {
			r.failures(&b, s.Deployment, &s.Fixtures[j])
		}
	}
	for _, f := range r.Lint {
		fmt.Fprintf(&b, "lint: %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *PromptReport) table(b *strings.Builder) {
	t := &strings.Builder{}
	t.WriteString("deployment")
	for i := range r.Scores[0].Fixtures {
		fmt.Fprintf(t, "\t%s", visible(r.Scores[0].Fixtures[i].Name))
	}
	t.WriteString("\tall\tfloor\n")
	line := func(passed, asked int, floor float64) {
		got, least := percents(share(passed, asked), floor)
		fmt.Fprintf(t, "\t%s\t%s", got, least)
		if below(share(passed, asked), floor) {
			t.WriteString("\tbelow")
		}
		t.WriteString("\n")
	}
	all := make([]FixtureScore, len(r.Scores[0].Fixtures))
	for i := range r.Scores {
		s := &r.Scores[i]
		t.WriteString(visible(s.Deployment))
		for j, f := range s.Fixtures {
			fmt.Fprintf(t, "\t%d/%d", f.Passed, f.Asked)
			all[j].Passed, all[j].Asked = all[j].Passed+f.Passed, all[j].Asked+f.Asked
		}
		passed, asked := s.count()
		line(passed, asked, r.floor)
	}
	t.WriteString("all")
	for _, f := range all {
		fmt.Fprintf(t, "\t%d/%d", f.Passed, f.Asked)
	}
	passed, asked := r.count()
	line(passed, asked, r.overall)
	aligned := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0) // a strings.Builder takes everything
	_, _ = io.WriteString(aligned, t.String())
	_ = aligned.Flush()
}

func (r *PromptReport) failures(b *strings.Builder, deployment string, f *FixtureScore) {
	const most = 500
	for _, failure := range f.Failures {
		fmt.Fprintf(b, "%s, %s", visible(deployment), visible(f.Name))
		if f.Asked > 1 {
			fmt.Fprintf(b, " (%d of %d)", failure.Sample, f.Asked)
		}
		fmt.Fprintf(b, ": %s\n", strings.Join(failure.Reasons, "; "))
		if answer := failure.Answer; r.shows && answer != "" {
			if len(answer) > most {
				answer = upTo(answer, most) + "…"
			}
			fmt.Fprintf(b, "    %q\n", answer)
		}
	}
}
