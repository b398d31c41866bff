package adapter

import (
	"errors"
	"io"
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
// that nobody sees.
func (c *Call) Damaged(piece []byte) error {
	return c.Fail(&llm.Error{
		Class: c.Unusable(), Message: "an event of the stream is damaged", Evidence: llm.Evidence{Body: wire.Start(piece)},
	})
}

// InBand is the error of an event that reports one.
func (c *Call) InBand(event []byte) error {
	ev := llm.Evidence{Body: wire.Start(event)}
	if f := wire.Unwrap(ev.Body); !f.Error { // only its name says that it is one
		ev.Message = f.Message
		FillIn(&ev.Message, ev.Body)
	}
	return c.Fail(&llm.Error{Evidence: ev})
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
}

func (s *sse) Next() (err error) {
	s.event, err = s.in.Next()
	return err
}

func (s *sse) Take() error {
	if !s.event.Stray {
		return s.Event(s.event.Name, s.event.Data)
	}
	// No event: an error or a page sent where a stream was promised, or JSON a line.
	if line := s.event.Data; wire.IsObject(line) {
		return s.Event(nil, line)
	} else if len(s.c.loose) < wire.MaxBody {
		s.c.Note(line)
		return nil
	}
	return s.c.Fail(&llm.Error{Evidence: llm.Evidence{Body: string(s.c.loose)}}) // enough of this
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
