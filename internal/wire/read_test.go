package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// endless gives bytes for ever and counts them.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += len(p)
	return len(p), nil
}

func TestReadBodyStopsAtItsLimit(t *testing.T) {
	e := &endless{}
	body, err := ReadBody(e)
	if err != nil || len(body) != MaxBody {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if e.read > 2*MaxBody {
		t.Errorf("took %d bytes from the connection", e.read)
	}
}

func TestReadBodyKeepsWhatCameBeforeAnError(t *testing.T) {
	broken := errors.New("broken")
	body, err := ReadBody(io.MultiReader(strings.NewReader("start"), readError{broken}))
	if body != "start" || !errors.Is(err, broken) {
		t.Errorf("%q, %v", body, err)
	}
	if body, err = ReadBody(nil); body != "" || err != nil {
		t.Errorf("no body: %q, %v", body, err)
	}
}

type readError struct{ err error }

func (r readError) Read([]byte) (int, error) { return 0, r.err }
