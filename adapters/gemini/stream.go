package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

const (
	// endGrace bounds how long a stream that has told its finish reason is listened to for the end of its body, or for more:
	// some servers tell one with every chunk. Servers end it at once; one that does not must not hold the answer back.
	endGrace = 5 * time.Second
	// smallEvent is the largest event that is checked by a reader without a bound on nesting.
	smallEvent = 64 << 10
)

// stream reads an answer piece by piece. It is whole when a finish reason has come, or the word that the prompt is blocked;
// the end of the stream alone proves nothing.
func (c *call) stream(in io.Reader) (*llm.Response, error) {
	c.phase = llm.PhaseStream
	s := &streaming{call: c, events: wire.NewSSE(in, wire.MaxEvent)}
	for {
		e, err := s.next()
		finished := s.answer.finished()
		switch {
		case err != nil && finished:
			return c.finish("")
		case err != nil:
			return nil, s.ended(err)
		case e.Stray:
			err = s.stray(e.Data)
		default:
			err = s.event(e.Data, string(e.Name) == "error")
		}
		switch {
		case err != nil && finished && !s.answer.sinkFailed: // the answer is whole; what follows it cannot take that back
			return c.finish("")
		case err != nil:
			return nil, err
		}
	}
}

// streaming is a stream while it is read.
type streaming struct {
	*call
	events *wire.SSE
	loose  []byte // what came that is no chunk of an answer
}

// next is the next event. Past the finish reason it is not waited for as long as may be.
func (s *streaming) next() (wire.Event, error) {
	if !s.answer.finished() {
		return s.events.Next()
	}
	timer := time.AfterFunc(endGrace, s.cancel)
	defer timer.Stop()
	return s.events.Next()
}

// event takes in the data of one event. Its error ends the stream.
func (s *streaming) event(data []byte, isError bool) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0 || string(data) == "[DONE]": // gateways copy that from another wire
		return nil
	case !valid(data):
		return s.damaged(data, isError)
	}
	if !isList(data) {
		return s.chunk(data, isError)
	}
	w := walkOf(data)
	for w.more() {
		if err := s.chunk(w.value(), isError); err != nil {
			return err
		}
	}
	return nil
}

func (s *streaming) chunk(chunk []byte, isError bool) error {
	if err := s.take(chunk); err != nil {
		return err
	}
	switch {
	case s.answer.failed || isError:
		return s.inBand(chunk)
	case s.answer.strange:
		s.note(chunk)
	}
	return nil
}

// inBand is the error of an event that reports one.
func (s *streaming) inBand(data []byte) error {
	ev := llm.Evidence{Body: start(data)}
	if f := wire.Unwrap(ev.Body); !f.Error { // only its name says that it is one
		ev.Message = f.Message
		fillIn(&ev.Message, ev.Body)
	}
	return s.fail(&llm.Error{Evidence: ev})
}

// valid reports whether data is JSON in whole characters: one that was cut on the way is damage, not an answer.
func valid(data []byte) bool {
	if len(data) > smallEvent {
		return json.Valid(data) && utf8.Valid(data)
	}
	return gjson.ValidBytes(data) && utf8.Valid(data)
}

// damaged is the error of an event that cannot be read. It may have held a part of the answer, which would then have a hole
// that nobody sees.
func (s *streaming) damaged(data []byte, isError bool) error {
	if isError {
		return s.inBand(data)
	}
	e := &llm.Error{
		Class: llm.Interrupted, Message: "an event of the stream is damaged", Evidence: llm.Evidence{Body: start(data)},
	}
	if s.answer.n == 0 {
		e.Class = llm.BadOutput
	}
	return s.fail(e)
}

// stray takes in a line that is no event: an error or a page sent where a stream was promised, or JSON a line.
func (s *streaming) stray(line []byte) error {
	if isObject(line) {
		return s.event(line, false)
	}
	if len(s.loose) >= wire.MaxBody {
		return s.fail(&llm.Error{Evidence: llm.Evidence{Body: string(s.loose)}}) // enough of this
	}
	s.note(line)
	return nil
}

// note keeps what may be evidence if nothing better comes.
func (s *streaming) note(data []byte) {
	if room := wire.MaxBody - len(s.loose); room > 0 {
		s.loose = append(append(s.loose, data[:min(len(data), room)]...), '\n')
	}
}

// ended is the error of a stream that ended, or broke, before its answer did. An error that came without framing, as servers
// send one in the middle of a stream, is found in what lies about.
func (s *streaming) ended(err error) error {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	e := &llm.Error{Err: plain(err), Evidence: llm.Evidence{Body: string(s.loose)}}
	switch {
	case errors.Is(err, wire.ErrEventTooLarge):
		e.Class = llm.BadOutput
		if s.answer.n > 0 {
			e.Class = llm.Interrupted
		}
	case err != nil:
	case len(s.loose) > 0 && (s.answer.n == 0 || wire.Unwrap(e.Evidence.Body).Error):
	default:
		return s.unfinished()
	}
	return s.fail(e)
}
