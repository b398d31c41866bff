package adapter

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// A Stream is an answer that comes piece by piece.
type Stream interface {
	// Next reads a piece. Its error ends the stream; io.EOF is the end in good order.
	Next() error
	// Take takes in the piece that was read. Its error, which the Call made, ends the call.
	Take() error
	// State says how far the answer is. whole: it has come, and nothing can take that back. over: nothing follows, whether it is
	// whole or not.
	State() (whole, over bool)
	// Ended is the error of a stream that ended before its answer was whole. nil: in good order.
	Ended(err error) error
}

// Follow reads a stream until its answer is whole and what may follow it has come, or the time for that is up (see
// [Call.Within]). nil: the answer is whole.
func (c *Call) Follow(s Stream) error {
	c.Phase = llm.PhaseStream
	for {
		err := c.next(s)
		whole, _ := s.State()
		if err == nil && !whole {
			err = c.Ctx.Err() // pieces that came together are read without a look at it
		}
		if err == nil {
			if err = s.Take(); err != nil && !c.Late(whole) {
				return err
			}
		} else if !whole {
			return s.Ended(inOrder(err))
		}
		if err != nil {
			return nil //nolint:nilerr // the answer is whole; what follows it cannot take that back
		}
		if whole, over := s.State(); over {
			if !whole {
				return s.Ended(nil)
			}
			c.drain(s)
			return nil
		}
	}
}

// Late reports whether an error came too late to count: once an answer is whole, nothing that follows takes that back but the
// sink's refusal.
func (c *Call) Late(whole bool) bool { return whole && !c.sinkFailed }

// inOrder makes nil of an end in good order.
func inOrder(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// drain reads to the end of the body, so that the connection can be used again.
func (c *Call) drain(s Stream) {
	c.Within(EndGrace)
	for range 16 {
		if c.next(s) != nil {
			return
		}
	}
}

// Within bounds how long the stream is still waited for: once that time is used up, the request ends. An answer that is whole
// is not held back by what may follow it. The time that the sink takes does not count. It may be called again.
func (c *Call) Within(d time.Duration) { c.limited, c.left = true, d }

// next reads a piece within the time that is left.
func (c *Call) next(s Stream) error {
	if !c.limited {
		return s.Next()
	}
	from := time.Now()
	timer := time.AfterFunc(c.left, c.Cancel)
	defer func() {
		timer.Stop()
		c.left -= time.Since(from)
	}()
	return s.Next()
}

// Unusable is the class of an answer that cannot be read on: BadOutput while nothing of its content had come.
func (c *Call) Unusable() llm.Class {
	if c.API.Begun() {
		return llm.Interrupted
	}
	return llm.BadOutput
}

// Damaged is the error of a piece that cannot be read. It may have held a part of the answer, which would then have a hole
// that nobody sees. One that the end of the input cut is no damage: the error is that of the end. One that began to tell of a
// failure is evidence of that.
func (c *Call) Damaged(piece []byte) error {
	switch {
	case tellsFailure(piece):
		return c.InBand(piece)
	case c.cut != nil:
		return c.ended(c.cut)
	}
	return c.Fail(&llm.Error{
		Class: c.Unusable(), Message: "an event of the stream is damaged", Evidence: llm.Evidence{Body: wire.Start(piece)},
	})
}

// IsContent reports whether a member of an event that has none of its API's fields may hold a part of an answer, as other APIs
// have it.
func IsContent(key, value []byte) bool {
	switch string(key) {
	case "message": // a text of that name is what failures have
		return len(value) > 0 && value[0] == '{' && !wire.IsVoid(value)
	case "choices", "candidates", "content", "content_block", "delta", "parts", "response", "output", "output_text", "text",
		"tool_calls", "completion", "generated_text":
		return !wire.IsVoid(value)
	}
	return false
}

// HasContent reports whether an event that has none of its API's fields may hold a part of an answer. It is JSON.
func HasContent(event []byte) bool {
	members := wire.Members(event)
	if members == nil {
		return !wire.IsVoid(event)
	}
	return slices.ContainsFunc(members, func(m wire.Member) bool { return IsContent(m.Key, m.Value) })
}

// Says reports whether JSON that has none of its API's fields speaks of a failure in a form of its own.
func Says(event []byte) bool {
	f := wire.Unwrap(wire.Start(event))
	return f.Error || f.Message != "" && (f.Code != "" || f.Status >= 400)
}

// tellsFailure reports whether a piece, which need not be JSON, begins as a failure does.
func tellsFailure(piece []byte) bool {
	var s wire.Scan
	s.Reset(piece)
	if s.Peek() != '{' {
		return false
	}
	s.Open('{')
	switch string(s.Key()) {
	case "error": // some send an empty one with every chunk
		return !s.Void() || s.Bad()
	case "type", "object":
		return string(s.Text()) == "error"
	}
	return false
}

// InBand is the error of an event that reports one.
func (c *Call) InBand(event []byte) error {
	ev := llm.Evidence{Body: wire.Start(event)}
	if f := wire.Unwrap(ev.Body); !f.Error { // only its name says that it is one
		ev.Message = f.Message
		FillIn(&ev.Message, ev.Body)
	}
	e := &llm.Error{Evidence: ev}
	if c.cut != nil && !wire.IsJSON(event) { // what it would have said is not known to the end
		e.Err = Plain(inOrder(c.cut))
	}
	return c.Fail(e)
}

// Note keeps what came in a stream and is no part of the answer: it may be evidence if nothing better comes.
func (c *Call) Note(data []byte) {
	if room := wire.MaxBody - len(c.loose); room > 0 {
		c.loose = append(append(c.loose, data[:min(len(data), room)]...), '\n')
	}
}

// Events understands the events of one API's streams.
type Events interface {
	// Event takes in the data of an event of that name. Its error, which the Call made, ends the call.
	Event(name, data []byte) error
	// State is that of a Stream.
	State() (whole, over bool)
	// Unfinished is the error of a stream that came to its end in good order before its answer was whole.
	Unfinished() error
}

// Events reads a stream of server-sent events of at most bound bytes, 0: [wire.MaxEvent]. nil: the answer is whole.
func (c *Call) Events(in io.Reader, bound int, to Events) error {
	return c.Follow(&sse{Events: to, c: c, in: wire.NewSSE(in, bound)})
}

type sse struct {
	Events
	c     *Call
	in    *wire.SSE
	event wire.Event
	lined bool   // events came without framing, one a line
	hole  []byte // a line that may have been an event
}

func (s *sse) Next() (err error) {
	s.event, err = s.in.Next()
	return err
}

// Take takes in an event. An answer does not get whole over a line that may have been an event and lost its framing; until
// then such lines may turn out to be an error or a page.
func (s *sse) Take() error {
	was, _ := s.State()
	err := s.take()
	if s.hole == nil || err != nil || was {
		return err
	}
	if is, _ := s.State(); is {
		return s.c.Damaged(s.hole)
	}
	return nil
}

func (s *sse) take() error {
	e := &s.event
	if s.c.cut = e.Cut; e.Cut != nil {
		s.c.ended = func(err error) error { return s.Ended(inOrder(err)) }
	}
	switch {
	case e.Stray:
	case keepsAlive(e):
		return nil
	default:
		return s.Event(e.Name, e.Data)
	}
	// No event: an error or a page sent where a stream was promised, or JSON a line.
	line := e.Data
	if wire.IsObject(line) || e.Cut != nil && line[0] == '{' {
		s.lined = true
		return s.Event(nil, line)
	}
	if s.hole == nil && (s.lined || bytes.IndexByte(line, '{') >= 0) {
		s.hole = bytes.Clone(line)
	}
	if len(s.c.loose) < wire.MaxBody {
		s.c.Note(line)
		return nil
	}
	return s.c.Fail(&llm.Error{Evidence: llm.Evidence{Body: string(s.c.loose)}}) // enough of this
}

// keepsAlive reports whether an event is one that only shows that the server is still there: data that is blank or an empty
// value, an event of the name ping without JSON in it, or a comment sent as data. Those are what some gateways make of the
// comments that they pass on: that of Vertex AI before partners' models ("data: : keepalive",
// https://github.com/anomalyco/opencode/issues/50871) and Manifest ("data: : OPENROUTER PROCESSING",
// https://github.com/mnfst/llm-gateway/issues/2053).
func keepsAlive(e *wire.Event) bool {
	data, ping := bytes.TrimSpace(e.Data), string(e.Name) == "ping"
	if len(e.Name) > 0 && !ping {
		return false
	}
	switch string(data) {
	case "", `""`, "null", "{}", "[]":
		return true
	}
	return data[0] == ':' || ping && !wire.IsJSON(data)
}

// Ended finds an error that came without framing in what lies about.
func (s *sse) Ended(err error) error {
	e := &llm.Error{Err: Plain(err), Evidence: llm.Evidence{Body: string(s.c.loose)}}
	switch {
	case errors.Is(err, wire.ErrEventTooLarge):
		e.Class = s.c.Unusable()
	case err != nil:
	case len(s.c.loose) > 0 && (!s.c.API.Begun() || wire.Unwrap(e.Evidence.Body).Error):
	default:
		return s.Unfinished()
	}
	return s.c.Fail(e)
}
