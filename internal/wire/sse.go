package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent is the size in bytes of the largest server-sent event that is read: far above any chunk of an answer, far below
// what would hurt.
const MaxEvent = 4 << 20

// ErrEventTooLarge says that a server sent an event, or a single line, above the bound.
var ErrEventTooLarge = errors.New("an event of the stream is too large")

// An Event is one server-sent event. Its bytes are valid until the next call of Next.
type Event struct {
	// Name is the event's type. Empty: a plain message.
	Name []byte
	// Data is the payload, several data lines joined by line feeds.
	Data []byte
	// Stray marks a line that is no field of an event stream, such as JSON or HTML sent without framing. Data is the line.
	Stray bool
	// Cut is what ended the input before the blank line that ends an event, io.EOF or the reader's error: the event may not be
	// all there. nil: it is.
	Cut error
}

// An SSE reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). It differs from a
// browser in what a client of models needs: the last event counts even if its final blank line or line feed is missing,
// since an error often comes so, and lines that are no fields are handed on instead of dropped, among the lines of an event
// those with a brace in them, which may be an event that lost its framing. It holds at most two events in memory, whatever the
// server sends.
type SSE struct {
	r   io.Reader
	max int
	err error // sticky: what ended the input

	buf        []byte // input; unread is buf[from:to]
	from, to   int
	at         int  // where the newest line begins
	seen       int  // of the unread bytes, those already searched for the end of a line
	skipLF     bool // the last line ended in CR: an LF that follows belongs to it
	started    bool // past a byte order mark
	name, data []byte
	lines      int // data lines of the event so far
}

// NewSSE reads events of at most bound bytes from r. A bound of 0 or less means MaxEvent.
func NewSSE(r io.Reader, bound int) *SSE {
	if bound <= 0 {
		bound = MaxEvent
	}
	return &SSE{r: r, max: bound, buf: make([]byte, min(8<<10, bound+2))}
}

// Next returns the next event. It returns the reader's error, io.EOF at the clean end, once all events are handed out.
func (s *SSE) Next() (Event, error) {
	s.name, s.data, s.lines = s.name[:0], s.data[:0], 0
	for {
		line, ok, err := s.line()
		if err != nil {
			return Event{}, err
		}
		if !ok { // the end of the input, and the end of what may be an unfinished event
			if s.lines > 0 {
				return Event{Name: s.name, Data: s.data, Cut: s.err}, nil
			}
			return Event{}, s.err
		}
		if len(line) == 0 {
			if s.lines > 0 {
				return Event{Name: s.name, Data: s.data}, nil
			}
			s.name = s.name[:0]
			continue
		}
		stray, err := s.field(line)
		if err != nil {
			return Event{}, err
		}
		switch cut := s.err != nil && s.from == s.to && !s.ended(); {
		case !stray, cut && begins(line):
		case s.lines > 0: // it comes after the event
			s.from, s.skipLF = s.at, false
			return Event{Name: s.name, Data: s.data}, nil
		case cut:
			return Event{Data: line, Stray: true, Cut: s.err}, nil
		default:
			return Event{Data: line, Stray: true}, nil
		}
	}
}

// ended reports whether the newest line has its end.
func (s *SSE) ended() bool { return s.from > 0 && (s.buf[s.from-1] == '\n' || s.buf[s.from-1] == '\r') }

// begins reports whether a line that was cut may be the beginning of a field.
func begins(line []byte) bool {
	for _, name := range [...]string{"data", "event", "retry"} {
		if len(line) < len(name) && name[:len(line)] == string(line) {
			return true
		}
	}
	return string(line) == "i"
}

// field takes in one line that is not blank, and reports one that is no field.
func (s *SSE) field(line []byte) (stray bool, err error) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if len(s.data)+len(value)+1 > s.max {
			return false, s.tooLarge()
		}
		if s.lines > 0 {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, value...)
		s.lines++
	case "event":
		s.name = append(s.name[:0], value...)
	case "", "id", "retry": // a comment, and fields that serve reconnection
	default:
		return s.lines == 0 || bytes.IndexByte(line, '{') >= 0, nil
	}
	return false, nil
}

func (s *SSE) tooLarge() error {
	s.err = fmt.Errorf("%w: more than %d bytes", ErrEventTooLarge, s.max)
	s.from, s.to = 0, 0
	return s.err
}

// line returns the next line without its end, which is LF, CR, CR LF or the end of the input. ok is false after the last.
func (s *SSE) line() (line []byte, ok bool, err error) {
	for {
		if s.skipLF && s.from < s.to {
			if s.skipLF = false; s.buf[s.from] == '\n' {
				s.from++
			}
		}
		if i := end(s.buf[s.from+s.seen : s.to]); i >= 0 {
			i += s.from + s.seen
			s.at = s.from
			line = s.buf[s.from:i]
			s.skipLF = s.buf[i] == '\r'
			s.from, s.seen = i+1, 0
			return s.first(line), true, nil
		}
		s.seen = s.to - s.from
		if s.err != nil {
			s.at = s.from
			line = s.buf[s.from:s.to]
			s.from, s.seen = s.to, 0
			return s.first(line), len(line) > 0, nil //nolint:nilerr // Next returns it once all events are out
		}
		if s.seen > s.max {
			return nil, false, s.tooLarge()
		}
		s.fill()
	}
}

// end is the index of the first end of a line in b, -1 if there is none.
func end(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if i >= 0 {
		b = b[:i]
	}
	if j := bytes.IndexByte(b, '\r'); j >= 0 {
		return j
	}
	return i
}

// first takes a byte order mark off the first line.
func (s *SSE) first(line []byte) []byte {
	if s.started {
		return line
	}
	s.started = true
	if len(line) >= 3 && string(line[:3]) == "\xef\xbb\xbf" {
		return line[3:]
	}
	return line
}

// fill reads more input, making room for it if there is none. An error is kept for later: what came with it counts.
func (s *SSE) fill() {
	if s.from > 0 {
		s.to = copy(s.buf, s.buf[s.from:s.to])
		s.from = 0
	}
	if s.to == len(s.buf) {
		grown := make([]byte, min(2*len(s.buf), s.max+2))
		copy(grown, s.buf)
		s.buf = grown
	}
	for range 100 { // a reader that returns neither bytes nor an error, as bufio bounds it
		n, err := s.r.Read(s.buf[s.to:])
		s.to += n
		if err != nil {
			s.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	s.err = io.ErrNoProgress
}
