package llmtest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/modelchain/llm/llmtest/internal/wire"
)

// streamed sends an answer in events, or what became of it.
func (x *exchange) streamed(t *Turn) {
	x.media(t)
	if t.Do == DoCut {
		x.w.Header().Set("Transfer-Encoding", "identity")
	}
	x.head(t, cmp.Or(t.Status, http.StatusOK))
	x.flush()
	pieces, struck := 0, !breaks(t.Do)
	wait := t.First
	for seq, e := range x.answer(t).Events(x.q) {
		content := e.Kind == wire.Piece
		if !struck && (content && pieces == t.At || e.Kind >= wire.Finish) {
			struck = true
			if x.strike(t, e, seq) {
				return
			}
		}
		if leavesOut(t.Do, e.Kind) {
			continue
		}
		if content || pieces == 0 && e.Kind == wire.Finish {
			if !x.pause(wait.draw(x.rand)) {
				return
			}
			wait = t.Gap
		}
		if !x.send(e.Data) {
			return
		}
		if content {
			pieces++
			x.note(func() { x.row.Pieces = pieces })
		}
	}
}

// breaks reports whether an act comes between two events.
func breaks(a Act) bool { return slices.Contains(breakingActs, a) }

// leavesOut reports whether an act leaves out the events of a kind.
func leavesOut(a Act, k wire.Kind) bool {
	switch a {
	case DoNoFinish:
		return k == wire.Finish
	case DoNoDone:
		return k == wire.Done
	case DoNoEnd:
		return k >= wire.Finish
	}
	return false
}

// strike does what breaks a stream before its event e, and reports whether nothing follows.
func (x *exchange) strike(t *Turn, e wire.Event, seq int) bool {
	switch t.Do {
	case DoMalformed, DoTruncated:
		return !x.send(x.q.Garbage(t.Do == DoTruncated, seq))
	case DoError:
		x.send(x.q.InBand(x.inBand(t), x.facts(t, limits{}), seq))
		if x.q.API == wire.Chat { // which ends so even then
			x.send("data: [DONE]\n\n")
		}
	case DoCutChunk:
		x.breakUp(t.Do, e.Data[:len(e.Data)/2])
	case DoResetBody, DoStall:
		x.breakOff(t)
	case DoCut: // the connection ends with the handler
	}
	return true
}

// breakOff ends an answer that has begun.
func (x *exchange) breakOff(t *Turn) {
	if t.Do == DoStall {
		x.hold(t.Hold)
		return
	}
	x.breakUp(t.Do, "")
}

// send writes and flushes, and reports whether the client is still there.
func (x *exchange) send(data string) bool {
	_, err := io.WriteString(x.w, data)
	x.flush()
	return err == nil && x.pause(0)
}

// breakUp takes the connection from the server and ends it: by a reset, or in good order after part of a chunk.
func (x *exchange) breakUp(how Act, part string) {
	x.note(func() { x.ended = true })
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil { // nothing but HTTP/1 can be taken over, and the server speaks nothing else
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = conn.Close() }()
	switch how {
	case DoResetHeaders:
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: applic")
	case DoCutChunk:
		_, _ = fmt.Fprintf(conn, "%x\r\n%s", len(part)+100, part)
	}
	if l, ok := conn.(interface{ SetLinger(int) error }); ok && how != DoClose && how != DoCutChunk {
		_ = l.SetLinger(0)
	}
}
