package anthropic

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

// endGrace bounds how long a stream that said it is over is listened to for the end of its body, which lets the connection
// be used again.
const endGrace = 50 * time.Millisecond

// smallEvent is the largest event that is checked by a reader without a bound on nesting.
const smallEvent = 64 << 10

// stream reads an answer piece by piece. It is whole when its stop reason and message_stop have come; the end of the stream
// proves nothing.
func (c *call) stream(in io.Reader) (*llm.Response, error) {
	c.phase = llm.PhaseStream
	s := &streaming{call: c, events: wire.NewSSE(in, wire.MaxEvent)}
	for !s.done {
		e, err := s.events.Next()
		switch {
		case err != nil:
			err = s.ended(err)
		case e.Stray:
			err = s.stray(e.Data)
		default:
			err = s.event(e.Name, e.Data)
		}
		if err != nil {
			return nil, err
		}
	}
	if s.answer.stop == "" {
		return nil, s.fail(&llm.Error{Class: llm.Interrupted, Message: "the stream ended without a stop reason"})
	}
	timer := time.AfterFunc(endGrace, s.cancel)
	defer timer.Stop()
	for range 16 {
		if _, err := s.events.Next(); err != nil {
			break
		}
	}
	return s.finish("")
}

// streaming is a stream while it is read.
type streaming struct {
	*call
	events *wire.SSE
	done   bool   // message_stop came
	loose  []byte // what came that is no event of this API's
}

// event takes in one event. Its error ends the stream.
func (s *streaming) event(name, data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0 || string(data) == "[DONE]": // gateways copy that from another wire
		return nil
	case !valid(data):
		return s.damaged(name, data)
	}
	var kind string
	var index int
	var body, used, failure gjson.Result
	gjson.ParseBytes(data).ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "type":
			kind = v.Str
		case "index":
			index = int(v.Int())
		case "delta", "message", "content_block":
			body = v
		case "usage":
			used = v
		case "error":
			failure = v
		case "request_id":
			s.answer.requestID = v.Str
		}
		return true
	})
	fillIn(&kind, string(name))
	a := &s.answer
	var err error
	switch kind {
	case "content_block_delta":
		err = a.delta(index, body)
	case "message_start":
		a.begin(body)
	case "content_block_start":
		err = a.start(index, body)
	case "content_block_stop":
		err = a.close(a.find(index))
	case "message_delta":
		err = a.end(body, used)
	case "message_stop":
		s.done = true
	case "ping":
	case "": // another API's, perhaps
		if !failure.Exists() {
			s.note(data)
			return nil
		}
		return s.inBand(data)
	default: // new kinds of events may come at any time
		if kind == "error" || failure.IsObject() {
			return s.inBand(data)
		}
	}
	switch {
	case err != nil:
		return s.sinkFailed(err)
	case a.held > maxAnswer:
		return s.fail(&llm.Error{Class: llm.BadOutput, Message: "the answer is larger than 32 MiB"})
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

// damaged is the error of an event that cannot be read. It may have held a part of the answer, which would then have a
// hole that nobody sees. Once the stop reason has come, all content has, and what is damaged is noise.
func (s *streaming) damaged(name, data []byte) error {
	switch {
	case string(name) == "error":
		return s.inBand(data)
	case s.answer.stop != "":
		return nil
	}
	e := &llm.Error{
		Class: llm.Interrupted, Message: "an event of the stream is damaged", Evidence: llm.Evidence{Body: start(data)},
	}
	if s.answer.n == 0 {
		e.Class = llm.BadOutput
	}
	return s.fail(e)
}

// stray takes in a line that is no event: an error or a page sent where a stream was promised.
func (s *streaming) stray(line []byte) error {
	if isObject(line) {
		return s.event(nil, line)
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

// ended is the error of a stream that ended, or broke, before its answer did.
func (s *streaming) ended(err error) error {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	e := &llm.Error{Err: plain(err), Evidence: llm.Evidence{Body: string(s.loose)}}
	switch {
	case err != nil:
	case len(s.loose) > 0 && s.answer.n == 0: // the body says what happened, or is no stream of this API's at all
	default:
		e.Class, e.Message = llm.Interrupted, "the stream ended without message_stop"
	}
	return s.fail(e)
}
