package anthropic

import (
	"bytes"
	"io"

	"github.com/tidwall/gjson"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/adapter"
	"github.com/modelchain/llm/internal/wire"
)

// Stream reads an answer piece by piece. It is whole when its stop reason and message_stop have come; the end of the stream
// proves nothing.
func (c *call) Stream(in io.Reader) (*llm.Response, error) {
	if err := c.Events(in, 0, &streaming{call: c}); err != nil {
		return nil, err
	}
	return c.finish("")
}

// streaming is a stream while it is read.
type streaming struct {
	*call
	done bool // message_stop came
}

// State is how far the answer is.
func (s *streaming) State() (whole, over bool) { return s.done && s.answer.stop != "", s.done }

// Event takes in one event.
func (s *streaming) Event(name, data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0 || string(data) == "[DONE]": // gateways copy that from another wire
		return nil
	case !wire.IsJSON(data):
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
	adapter.FillIn(&kind, string(name))
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
		switch {
		case failure.Exists():
			return s.InBand(data)
		case adapter.HasContent(data):
			return s.damaged(name, data)
		}
		s.Note(data)
		return nil
	default: // new kinds of events may come at any time
		if kind == "error" || failure.IsObject() {
			return s.InBand(data)
		}
	}
	switch {
	case err != nil:
		return s.SinkFailed(err)
	case a.Lost:
		return s.damaged(name, data)
	case a.held > s.Most:
		return s.TooLarge()
	}
	return nil
}

// damaged is the error of an event that cannot be read, or of which a part that may have been content cannot. Once the stop
// reason has come, all content has, and what is damaged is noise.
func (s *streaming) damaged(name, data []byte) error {
	switch {
	case string(name) == "error":
		return s.InBand(data)
	case s.answer.stop != "":
		return nil
	}
	return s.Damaged(data)
}

// Unfinished is the error of a stream that came to its end in good order before its answer did.
func (s *streaming) Unfinished() error {
	missing := "message_stop"
	if s.done {
		missing = "a stop reason"
	}
	return s.Fail(&llm.Error{Class: llm.Interrupted, Message: "the stream ended without " + missing})
}
