package bedrock

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

const (
	// metadataGrace bounds the wait for the usage, which follows the end of the message.
	metadataGrace = time.Second

	minFrame = 16
	// maxFrame is the largest frame: payload and headers at their own bounds.
	maxFrame = 16<<20 - 1
)

// errDamaged says that what came is no frame.
var errDamaged = errors.New("a frame of the stream is damaged")

// frames reads an event stream. The SDK's decoder trusts a frame's length with memory and tells a frame that was cut from
// the end of the stream only in part; it gets whole frames here.
type frames struct {
	in      *bufio.Reader
	decoder *eventstream.Decoder
	frame   bytes.Buffer
	reader  bytes.Reader
	payload []byte
}

func newFrames(in *bufio.Reader) *frames {
	return &frames{in: in, decoder: eventstream.NewDecoder(), payload: make([]byte, 0, 4<<10)}
}

// next is the next frame, which is valid until the call after it; io.EOF at the end between two frames.
func (f *frames) next() (m eventstream.Message, err error) {
	head, err := f.in.Peek(4)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return m, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < minFrame || n > maxFrame {
		return m, fmt.Errorf("%w: its length is %d bytes", errDamaged, n)
	}
	f.frame.Reset()
	if _, err := io.CopyN(&f.frame, f.in, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return m, err
	}
	f.reader.Reset(f.frame.Bytes())
	if m, err = f.decoder.Decode(&f.reader, f.payload[:0]); err != nil {
		return m, fmt.Errorf("%w: %w", errDamaged, err)
	}
	f.payload = m.Payload
	return m, nil
}

// Stream reads an answer piece by piece. It is whole when messageStop has come; the end of the stream proves nothing. The
// usage follows, if it does.
func (c *call) Stream(in io.Reader) (*llm.Response, error) {
	if err := c.Follow(&streaming{call: c, frames: newFrames(bufio.NewReader(in))}); err != nil {
		return nil, err
	}
	return c.finish("")
}

// streaming is a stream while it is read.
type streaming struct {
	*call
	frames  *frames
	frame   eventstream.Message
	stopped bool // messageStop came
	told    bool // and metadata
}

// Next reads a frame.
func (s *streaming) Next() (err error) {
	s.frame, err = s.frames.next()
	return err
}

// State is how far the answer is.
func (s *streaming) State() (whole, over bool) { return s.stopped, s.stopped && s.told }

// Take takes in one frame.
func (s *streaming) Take() error {
	m := &s.frame
	var kind, event, exception, code, message string
	for i := range m.Headers {
		to := &kind
		switch m.Headers[i].Name {
		case eventstreamapi.MessageTypeHeader:
		case eventstreamapi.EventTypeHeader:
			to = &event
		case eventstreamapi.ExceptionTypeHeader:
			to = &exception
		case eventstreamapi.ErrorCodeHeader:
			to = &code
		case eventstreamapi.ErrorMessageHeader:
			to = &message
		default:
			continue
		}
		if v, ok := m.Headers[i].Value.(eventstream.StringValue); ok {
			*to = string(v)
		}
	}
	adapter.FillIn(&exception, code)
	switch {
	case s.stopped && event != "metadata": // nothing is missing any more
		return nil
	case kind == eventstreamapi.ExceptionMessageType, kind == eventstreamapi.ErrorMessageType, strings.HasSuffix(event, "Exception"):
		adapter.FillIn(&exception, event)
		return s.exception(exception, message, m.Payload)
	case kind != "" && kind != eventstreamapi.EventMessageType: // which may come at any time
		return nil
	}
	return s.event(event, m.Payload)
}

// event takes in one event.
func (s *streaming) event(name string, payload []byte) error {
	a := &s.answer
	switch name {
	case "contentBlockDelta":
		var d wireDelta
		if !s.read(payload, &d) {
			return s.Damaged(payload)
		}
		a.size += len(payload) - len(d.Delta.Text) // more counts the text
		if err := a.delta(&d); err != nil {
			return s.SinkFailed(err)
		}
		if a.Lost {
			return s.Damaged(payload)
		}
	case "contentBlockStart":
		var e struct {
			Index int       `json:"contentBlockIndex"`
			Start wireBlock `json:"start"`
		}
		if !s.read(payload, &e) {
			return s.Damaged(payload)
		}
		a.start(e.Index, &e.Start)
		a.size += len(payload)
	case "contentBlockStop":
		var e struct {
			Index int `json:"contentBlockIndex"`
		}
		if !s.read(payload, &e) {
			return s.Damaged(payload)
		}
		if err := a.close(a.find(e.Index)); err != nil {
			return s.SinkFailed(err)
		}
	case "messageStop":
		var all map[string]json.RawMessage
		if !s.read(payload, &all) {
			return s.Damaged(payload)
		}
		a.meta(all)
		s.stopped = true
		s.Within(metadataGrace)
		if err := a.end(a.stop); err != nil {
			return s.SinkFailed(err)
		}
	case "metadata":
		var all map[string]json.RawMessage
		if s.read(payload, &all) {
			a.meta(all)
		}
		s.told = true
	case "":
		if !wire.IsVoid(bytes.TrimSpace(payload)) {
			return s.Damaged(payload)
		}
	}
	if a.size > s.Most {
		return s.TooLarge()
	}
	return nil // messageStart, and new kinds of events, which may come at any time
}

// read reads a payload in whole characters: one that is damaged is no answer.
func (s *streaming) read(payload []byte, into any) bool {
	return utf8.Valid(payload) && json.Unmarshal(payload, into) == nil
}

// exception is the error of a frame that reports one.
func (s *streaming) exception(code, message string, payload []byte) error {
	ev := llm.Evidence{Code: code, Message: message, Body: wire.Start(payload)}
	if f := wire.Unwrap(ev.Body); ev.Message == "" && f.Message == "" {
		ev.Message = ev.Body
	}
	if ev.Code == "" && ev.Message == "" {
		ev.Message = "an exception without a name"
	}
	return s.Fail(&llm.Error{Evidence: ev})
}

// Ended is the error of a stream that ended, or broke, before its answer did.
func (s *streaming) Ended(err error) error {
	switch {
	case err == nil:
		return s.Fail(&llm.Error{Class: llm.Interrupted, Message: "the stream ended without messageStop"})
	case errors.Is(err, io.ErrUnexpectedEOF):
		return s.Fail(&llm.Error{Class: llm.Interrupted, Message: "the stream was cut", Err: err})
	case errors.Is(err, errDamaged):
		return s.Fail(&llm.Error{Class: s.Unusable(), Err: err})
	}
	return s.Fail(&llm.Error{Err: plain(err)})
}
