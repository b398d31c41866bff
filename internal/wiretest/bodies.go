package wiretest

import (
	"context"
	"io"
	"net/http"
	"strings"
)

// A Stalling server writes what it has and then waits until the client closes the connection.
type Stalling struct {
	// Reached is closed once it waits, Closed once the client has gone.
	Reached, Closed chan struct{}

	status     int
	kind, body string
}

// Stall answers one request with what comes before the stall. Without a media type not even headers come.
func Stall(status int, kind, body string) *Stalling {
	return &Stalling{make(chan struct{}), make(chan struct{}), status, kind, body}
}

// ServeHTTP answers a request.
func (s *Stalling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if s.kind != "" {
		w.Header().Set("Content-Type", s.kind)
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
		_ = http.NewResponseController(w).Flush()
	}
	close(s.Reached)
	<-r.Context().Done()
	close(s.Closed)
}

// HangUp answers every request with part of an answer and breaks the connection. A body promises to be longer than it is;
// without a media type not even headers come.
func HangUp(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if kind != "" {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Length", "100000")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// Hanging is a body that stays open after what it has, until ctx, its request's, ends.
func Hanging(ctx context.Context, text string) io.Reader {
	return hanging{strings.NewReader(text), ctx}
}

type hanging struct {
	io.Reader
	ctx context.Context //nolint:containedctx // the request's
}

func (h hanging) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); err == nil {
		return n, nil
	}
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

// Parts is a body that comes in parts and tells whether its end was seen.
type Parts struct {
	Left  []string
	Ended bool
}

// Read reads a part.
func (p *Parts) Read(b []byte) (int, error) {
	if len(p.Left) == 0 {
		p.Ended = true
		return 0, io.EOF
	}
	n := copy(b, p.Left[0])
	if p.Left[0] = p.Left[0][n:]; p.Left[0] == "" {
		p.Left = p.Left[1:]
	}
	return n, nil
}

// Endless is a body without end.
type Endless struct {
	Text string
	N    int // bytes that were read of it

	at int
}

// Read reads a part.
func (e *Endless) Read(p []byte) (int, error) {
	n := copy(p, e.Text[e.at:])
	e.at = (e.at + n) % len(e.Text)
	e.N += n
	return n, nil
}
