package gemini

import (
	"bytes"
	"io"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wire"
)

// endGrace bounds how long a stream that has told its finish reason is listened to for the end of its body, or for more: some
// servers tell one with every chunk. Servers end it at once; one that does not must not hold the answer back.
const endGrace = 5 * time.Second

// Stream reads an answer piece by piece. It is whole when a finish reason has come, or the word that the prompt is blocked;
// the end of the stream alone proves nothing.
func (c *call) Stream(in io.Reader) (*llm.Response, error) {
	if err := c.Events(in, 0, c); err != nil {
		return nil, err
	}
	return c.finish("")
}

// State is how far the answer is. Nothing says that a stream is over but its end.
func (c *call) State() (whole, over bool) { return c.answer.finished(), false }

// Event takes in the data of one event.
func (c *call) Event(name, data []byte) error {
	err := c.event(data, string(name) == "error")
	if c.answer.finished() {
		c.Within(endGrace)
	}
	return err
}

func (c *call) event(data []byte, isError bool) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0 || string(data) == "[DONE]": // gateways copy that from another wire
		return nil
	case wire.IsJSON(data):
	case isError:
		return c.InBand(data)
	default:
		return c.Damaged(data)
	}
	if !isList(data) {
		return c.chunk(data, isError)
	}
	w := walkOf(data)
	for w.more() {
		if err := c.chunk(w.value(), isError); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) chunk(chunk []byte, isError bool) error {
	if err := c.take(chunk); err != nil {
		return err
	}
	switch {
	case c.answer.failed || isError:
		return c.InBand(chunk)
	case c.answer.Lost:
		return c.Damaged(chunk)
	case c.answer.strange:
		c.Note(chunk)
	}
	return nil
}
