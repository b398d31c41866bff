package openai

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// How long a stream that has told its finish reason is listened to: for its usage, and for the end that lets the connection
// be used again. Servers send both at once; one that does not must not hold the answer back.
const (
	usageGrace = 500 * time.Millisecond
	endGrace   = 50 * time.Millisecond
)

// stream reads an answer piece by piece. It is whole when a finish reason has come; the end of the stream alone proves
// nothing. What one API calls its end is the reader's business.
func (c *call) stream(in io.Reader) (*llm.Response, error) {
	c.phase = llm.PhaseStream
	s := &streaming{call: c, events: wire.NewSSE(in, c.m.api.bound())}
	defer s.stop()
	for {
		e, err := s.events.Next()
		switch {
		case err != nil && s.finished:
			return c.finish("")
		case err != nil:
			return nil, s.ended(err)
		case e.Stray:
			err = s.stray(e.Data)
		default:
			err = s.event(e.Data, string(e.Name) == "error")
		}
		switch {
		case err != nil && s.finished && !s.sinkFailed: // the answer is whole; what follows it cannot take that back
			return c.finish("")
		case err != nil:
			return nil, err
		case s.done:
			return s.close()
		}
	}
}

// streaming is a stream while it is read.
type streaming struct {
	*call
	events     *wire.SSE
	begun      bool // some of an answer came
	finished   bool // a finish reason came
	done       bool // the stream said that it is over
	sinkFailed bool
	unreadable int    // events that were skipped
	loose      []byte // lines without framing
	timer      *time.Timer
}

func (s *streaming) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// event takes in the data of one event, which is one JSON value, or several on lines of their own from servers that leave
// out the blank lines.
func (s *streaming) event(data []byte, isError bool) error {
	for {
		data = bytes.TrimSpace(data)
		switch {
		case len(data) == 0:
			return nil
		case bytes.HasPrefix(data, []byte("[DONE]")):
			s.done = true
			return nil
		}
		rest, ok := s.reader.parse(data)
		if !ok {
			return s.damaged(data, isError)
		}
		if err := s.take(data[:len(data)-len(rest)], isError); err != nil {
			return err
		}
		data = rest
	}
}

// take takes in what was read of an event.
func (s *streaming) take(data []byte, isError bool) error {
	s.begun = s.begun || s.reader.begins()
	if err := s.reader.take(&s.answer); err != nil {
		s.sinkFailed = true
		return s.call.sinkFailed(err)
	}
	if isError || s.reader.isFailure(data) {
		return s.inBand(data)
	}
	if s.answer.finish == "" {
		return nil
	}
	if e := s.reader.broken(&s.answer, start(data)); e != nil {
		return s.fail(e)
	}
	s.finished = true
	s.grace()
	return nil
}

// says reports whether an event that is none of the API's speaks of a failure in a form of its own.
func says(data []byte) bool {
	f := wire.Unwrap(string(data[:min(len(data), wire.MaxBody)]))
	return f.Error || f.Message != "" && (f.Code != "" || f.Status >= 400)
}

// inBand is the error of an event that reports one.
func (s *streaming) inBand(data []byte) error {
	ev := llm.Evidence{Body: start(data)}
	if f := wire.Unwrap(ev.Body); !f.Error { // only its name says that it is one
		ev.Message = f.Message
		if ev.Message == "" {
			ev.Message = ev.Body
		}
	}
	return s.fail(&llm.Error{Evidence: ev})
}

// damaged decides about an event that cannot be read. One that bears the API's marks held a part of the answer, and
// without it the answer would have a hole that nobody sees. Anything else is noise, and the stream goes on: if the answer
// gets its finish reason, it is whole.
func (s *streaming) damaged(data []byte, isError bool) error {
	if isError {
		return s.inBand(data)
	}
	s.unreadable++
	if !s.finished && marked(data, s.m.api.marks()) {
		return s.fail(&llm.Error{
			Class: s.unusable(), Message: "an event of the stream is damaged", Evidence: llm.Evidence{Body: start(data)},
		})
	}
	if s.answer.n == 0 && len(s.loose) == 0 {
		s.loose = append(s.loose, data[:min(len(data), wire.MaxBody)]...) // evidence, if nothing better comes
	}
	return nil
}

// unusable is the class of a stream that cannot be read on: BadOutput while nothing of its answer had come.
func (s *streaming) unusable() llm.Class {
	if s.answer.n > 0 {
		return llm.Interrupted
	}
	return llm.BadOutput
}

func marked(data []byte, marks []string) bool {
	for _, mark := range marks {
		if bytes.Contains(data, []byte(mark)) {
			return true
		}
	}
	return false
}

// stray takes in a line that is no event: an error or a page sent where a stream was promised, or JSON a line.
func (s *streaming) stray(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) > 0 && line[0] == '{' {
		if rest, ok := s.reader.parse(line); ok && len(rest) == 0 {
			return s.take(line, false)
		}
	}
	if room := wire.MaxBody - len(s.loose); room > 0 {
		s.loose = append(append(s.loose, line[:min(len(line), room)]...), '\n')
		return nil
	}
	return s.fail(&llm.Error{Evidence: llm.Evidence{Body: string(s.loose)}}) // enough of this
}

// ended is the error of a stream that ended, or broke, before its answer did.
func (s *streaming) ended(err error) error {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	e := &llm.Error{Err: plain(err), Evidence: llm.Evidence{Body: string(s.loose)}}
	switch {
	case errors.Is(err, wire.ErrEventTooLarge):
		e.Class = s.unusable()
	case err != nil:
	case len(s.loose) > 0 && s.answer.n == 0: // the body says what happened, or is no stream at all
	default:
		return s.unfinished()
	}
	return s.fail(e)
}

// unfinished is the error of a stream that came to its end in good order, before its answer did.
func (s *streaming) unfinished() error {
	if !s.begun {
		return s.fail(&llm.Error{Class: llm.Unavailable, Message: "the stream ended before an answer"})
	}
	return s.fail(&llm.Error{Class: llm.Interrupted, Message: "the stream ended without " + s.m.api.end()})
}

// grace starts the clock of what may still come.
func (s *streaming) grace() {
	d := usageGrace
	if s.answer.counted {
		d = endGrace
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.cancel)
	} else if s.answer.counted {
		s.timer.Reset(d)
	}
}

// close ends a stream that said it is over, and reads to the end of the body so that the connection can be used again.
func (s *streaming) close() (*llm.Response, error) {
	if !s.finished {
		return nil, s.unfinished()
	}
	s.timer.Reset(endGrace)
	for range 16 {
		if _, err := s.events.Next(); err != nil {
			break
		}
	}
	return s.call.finish("")
}
