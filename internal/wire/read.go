package wire

import (
	"bytes"
	"io"
)

// ReadBody reads the start of a failing answer's body: at most [MaxBody] bytes, however long it is. It gives what came
// before a read error together with the error. The caller closes the body.
func ReadBody(r io.Reader) (string, error) {
	if r == nil {
		return "", nil
	}
	var b bytes.Buffer // grows with the body, where io.Copy would take 32 KiB at once
	_, err := b.ReadFrom(io.LimitReader(r, MaxBody))
	return b.String(), err
}

// Start is what of a body that was read goes into the evidence: the first [MaxBody] bytes.
func Start(b []byte) string { return string(b[:min(len(b), MaxBody)]) }
