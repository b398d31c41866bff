package openai

import (
	"bytes"
	"io"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// usageGrace is how long a stream that has told its finish reason is listened to for its usage. Servers send both at once; one
// that does not must not hold the answer back.
const usageGrace = 500 * time.Millisecond

// Stream reads an answer piece by piece. It is whole when a finish reason has come; the end of the stream alone proves
// nothing. What one API calls its end is the reader's business.
func (c *call) Stream(in io.Reader) (*llm.Response, error) {
	if err := c.Events(in, c.m.api.bound(), &streaming{call: c}); err != nil {
		return nil, err
	}
	return c.finish("")
}

// streaming is a stream while it is read.
type streaming struct {
	*call
	begun    bool // some of an answer came
	finished bool // a finish reason came
	done     bool // the stream said that it is over
}

// State is how far the answer is.
func (s *streaming) State() (whole, over bool) { return s.finished, s.done }

// Event takes in the data of one event, which is one JSON value, or several on lines of their own from servers that leave
// out the blank lines.
func (s *streaming) Event(name, data []byte) error {
	isError := string(name) == "error"
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
		whole := s.finished
		if err := s.take(data[:len(data)-len(rest)], isError); err != nil && !s.Late(whole) {
			return err
		}
		data = rest
	}
}

// take takes in what was read of an event.
func (s *streaming) take(data []byte, isError bool) error {
	s.begun = s.begun || s.reader.begins()
	if err := s.reader.take(&s.answer); err != nil {
		return s.SinkFailed(err)
	}
	if s.answer.out > s.Most {
		return s.TooLarge()
	}
	failure := s.reader.reports(data)
	switch {
	case failure != nil:
		return s.InBand(failure)
	case isError:
		return s.InBand(data)
	case s.reader.lossy():
		return s.damaged(data, false)
	}
	if s.answer.finish == "" {
		return nil
	}
	if e := s.reader.broken(&s.answer, wire.Start(data)); e != nil {
		return s.Fail(e)
	}
	switch {
	case s.answer.counted:
		s.Within(adapter.EndGrace)
	case !s.finished:
		s.Within(usageGrace)
	}
	s.finished = true
	return nil
}

// damaged is the error of an event that cannot be read, or of which a part that may have been content cannot. Once the answer
// is whole it is noise.
func (s *streaming) damaged(data []byte, isError bool) error {
	switch {
	case isError:
		return s.InBand(data)
	case s.finished:
		return nil
	}
	return s.Damaged(s.reader.quotes(data))
}

// Unfinished is the error of a stream that came to its end in good order, before its answer did.
func (s *streaming) Unfinished() error {
	if !s.begun {
		return s.Fail(&llm.Error{Class: llm.Unavailable, Message: "the stream ended before an answer"})
	}
	return s.Fail(&llm.Error{Class: llm.Interrupted, Message: "the stream ended without " + s.m.api.end()})
}
