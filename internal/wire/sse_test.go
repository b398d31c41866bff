package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelchain/llm/internal/wire"
)

// sseAll reads all events as "name|data", strays as "!data", and what ended the stream.
func sseAll(r io.Reader, bound int) (events []string, err error) {
	s := wire.NewSSE(r, bound)
	for {
		e, err := s.Next()
		switch {
		case err != nil:
			return events, err
		case e.Stray:
			events = append(events, "!"+string(e.Data))
		default:
			events = append(events, string(e.Name)+"|"+string(e.Data))
		}
	}
}

func TestSSEReadsEvents(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"plain", "data: one\n\ndata: two\n\n", []string{"|one", "|two"}},
		{"without a blank after the colon", "data:one\n\n", []string{"|one"}},
		{"only one blank is taken off", "data:  one\n\n", []string{"| one"}},
		{"CR LF", "event: x\r\ndata: one\r\n\r\ndata: two\r\n\r\n", []string{"x|one", "|two"}},
		{"CR alone", "data: one\r\rdata: two\r\r", []string{"|one", "|two"}},
		{"mixed ends", "data: one\r\n\ndata: two\n\r\n", []string{"|one", "|two"}},
		{"several data lines are one event", "data: {\ndata: }\n\n", []string{"|{\n}"}},
		{"comments are no events", ": ping\n\n:\n\ndata: one\n: in between\n\n", []string{"|one"}},
		{"comments do not spoil an error event", ": ping\n\nevent: error\ndata: bad\n\n", []string{"error|bad"}},
		{"a name without data is forgotten", "event: error\n\ndata: one\n\n", []string{"|one"}},
		{"id and retry are passed over", "id: 7\nretry: 10\ndata: one\n\n", []string{"|one"}},
		{"a data line without a colon is empty", "data\n\ndata: one\n\n", []string{"|", "|one"}},
		{"byte order mark", "\xef\xbb\xbfdata: one\n\n", []string{"|one"}},
		{"the last event needs no blank line", "data: one\n\ndata: two\n", []string{"|one", "|two"}},
		{"the last event needs no line feed", "data: one\n\ndata: two", []string{"|one", "|two"}},
		{"the last event may end in CR", "data: one\n\ndata: two\r", []string{"|one", "|two"}},
		{"JSON without framing", `{"error":{"message":"x"}}`, []string{`!{"error":{"message":"x"}}`}},
		{"HTML without framing", "<html>\n<p>x</p>\n", []string{"!<html>", "!<p>x</p>"}},
		{"the beginning of a field at the end is nothing", "data: one\n\ndat", []string{"|one"}},
		{"the beginning of a field after data is nothing", "data: one\neven", []string{"|one"}},
		{"an unknown field in an event is passed over", "data: one\nfoo: x\ndata: two\n\n", []string{"|one\ntwo"}},
		{"an event without framing after one", "data: one\n{\"a\":1}\ndata: two\n\n", []string{"|one", `!{"a":1}`, "|two"}},
		{"an event without framing at the end", "data: one\r\n{\"a\":1}", []string{"|one", `!{"a":1}`}},
		{"blank lines alone", "\n\n\r\n\n", nil},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			readers := map[string]io.Reader{
				"at once":      strings.NewReader(tt.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
				"data and EOF": iotest.DataErrReader(strings.NewReader(tt.in)),
			}
			for how, r := range readers {
				got, err := sseAll(r, 0)
				if !slices.Equal(got, tt.want) || !errors.Is(err, io.EOF) {
					t.Errorf("%s: got %q, %v; want %q, EOF", how, got, err, tt.want)
				}
			}
		})
	}
}

func TestSSEHandsOutWhatCameBeforeABreakAndThenTheBreak(t *testing.T) {
	broke := errors.New("connection reset")
	in := io.MultiReader(strings.NewReader("data: one\n\ndata: {\"error\":1}\n"), iotest.ErrReader(broke))
	got, err := sseAll(in, 0)
	if want := []string{"|one", `|{"error":1}`}; !slices.Equal(got, want) || !errors.Is(err, broke) {
		t.Errorf("got %q, %v; want %q, %v", got, err, want, broke)
	}
}

func TestSSESaysWhichEventMayNotBeAllThere(t *testing.T) {
	broke := errors.New("connection reset")
	for in, cut := range map[string]bool{
		"data: one\n\n": false, "data: one\r\n\r\n": false, "data: one\n": true, "data: on": true, "<html>": true, "<html>\n": false,
		"data: one\n<html>": true, `{"a":1}`: true, "data: one\n\n: comm": false, "data: one\n\nevent: x": false,
	} {
		s := wire.NewSSE(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broke)), 0)
		var last wire.Event
		for e, err := s.Next(); err == nil; e, err = s.Next() {
			last = e
		}
		if errors.Is(last.Cut, broke) != cut {
			t.Errorf("%q: got %v", in, last.Cut)
		}
	}
}

// sseFlood is an endless input that counts what was taken from it.
type sseFlood struct {
	head string
	fill byte
	n    int
}

func (f *sseFlood) Read(p []byte) (int, error) {
	n := copy(p, f.head[min(f.n, len(f.head)):])
	for i := n; i < len(p); i++ {
		p[i] = f.fill
	}
	f.n += len(p)
	return len(p), nil
}

func TestSSEStopsAtAnEventAboveTheBound(t *testing.T) {
	const bound = 64 << 10
	for _, in := range []*sseFlood{
		{head: "data: {", fill: 'x'},
		{head: ": a comment ", fill: 'x'},
		{head: "<html", fill: 'x'},
		{fill: ':'},
	} {
		_, err := sseAll(in, bound)
		if !errors.Is(err, wire.ErrEventTooLarge) {
			t.Errorf("%q…: got %v, want %v", in.head, err, wire.ErrEventTooLarge)
		}
		if in.n > 3*bound {
			t.Errorf("%q…: read %d bytes of an event bound to %d", in.head, in.n, bound)
		}
	}
	many := io.LimitReader(&sseLines{line: "data: " + strings.Repeat("x", 100) + "\n"}, 10<<20)
	if _, err := sseAll(many, bound); !errors.Is(err, wire.ErrEventTooLarge) {
		t.Errorf("many data lines: got %v, want %v", err, wire.ErrEventTooLarge)
	}
}

// sseLines repeats a line for ever.
type sseLines struct {
	line string
	at   int
}

func (l *sseLines) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		c := copy(p[n:], l.line[l.at:])
		n += c
		l.at = (l.at + c) % len(l.line)
	}
	return len(p), nil
}

func TestSSEReadsAnEventOfExactlyTheBound(t *testing.T) {
	const bound = 32 << 10
	line := "data: " + strings.Repeat("x", bound-6)
	got, err := sseAll(strings.NewReader(line+"\n\n"), bound)
	if len(got) != 1 || len(got[0]) != bound-5 || !errors.Is(err, io.EOF) {
		t.Errorf("got %d events, %v", len(got), err)
	}
}

func TestSSEGivesUpOnAReaderThatGivesNothing(t *testing.T) {
	if _, err := sseAll(sseIdle{}, 0); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v, want %v", err, io.ErrNoProgress)
	}
}

type sseIdle struct{}

func (sseIdle) Read([]byte) (int, error) { return 0, nil }

func TestSSEAllocatesNothingPerEvent(t *testing.T) {
	in := &sseLines{line: "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n"}
	s := wire.NewSSE(in, 0)
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations an event, want 0", n)
	}
}

func FuzzSSE(f *testing.F) {
	for _, seed := range []string{
		"data: one\n\ndata: two\n\n", "event: error\r\ndata: {\"error\":{}}\r\n\r\n", ": ping\n\n", "data\rdata:\r\r", "{\"error\":1}",
		"\xef\xbb\xbfdata: x", "data: a\ndata: b\n\n", "<html>\n", "\x00\xff:\n\n", "retry: 9\nid\nevent:\ndata: [DONE]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const bound = 256
		whole, errWhole := sseAll(bytes.NewReader(in), bound)
		pieces, errPieces := sseAll(iotest.OneByteReader(bytes.NewReader(in)), bound)
		if fmt.Sprint(whole, errWhole) != fmt.Sprint(pieces, errPieces) {
			t.Fatalf("how the bytes arrive makes a difference:\n%q %v\n%q %v", whole, errWhole, pieces, errPieces)
		}
		total := 0
		for _, e := range whole {
			if total += len(e); len(e) > 2*bound {
				t.Fatalf("an event of %d bytes under a bound of %d", len(e), bound)
			}
		}
		if total > 2*len(in)+2*len(whole) {
			t.Fatalf("%d bytes came out of %d", total, len(in))
		}
		if !errors.Is(errWhole, io.EOF) && !errors.Is(errWhole, wire.ErrEventTooLarge) {
			t.Fatalf("ended with %v", errWhole)
		}
	})
}

func BenchmarkSSE(b *testing.B) {
	s := wire.NewSSE(&sseLines{line: "data: " + strings.Repeat("x", 300) + "\n\n"}, 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Next(); err != nil {
			b.Fatal(err)
		}
	}
}
