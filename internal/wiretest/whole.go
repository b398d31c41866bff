package wiretest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/modelchain/llm"
)

// cuts ends a stream after each of its bytes, in good order and by a reset of the connection.
func cuts(t *testing.T, a *API) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	for n := range len(a.Hello) {
		for _, end := range []error{nil, reset} {
			m := a.New(Settings{HTTP: InMemory(200, a.Kind, func(context.Context) io.Reader {
				if end == nil {
					return strings.NewReader(a.Hello[:n])
				}
				return io.MultiReader(strings.NewReader(a.Hello[:n]), iotest.ErrReader(end))
			})})
			deltas, resp, err := Collect(t.Context(), m, Ask("hi"))
			if err == nil {
				if resp.Text() != "Hello" {
					t.Errorf("after %q, then %v: %q was sold as whole", a.Hello[:n], end, resp.Text())
				}
				continue
			}
			e := Failure(t, resp, err)
			commit := llm.CommitUnknown
			if len(deltas) > 0 {
				commit = llm.Committed
			}
			if e.Class != llm.Interrupted && (e.Class != llm.Unavailable || len(deltas) > 0) || e.Commit != commit ||
				end != nil && !errors.Is(err, syscall.ECONNRESET) || (e.Partial != nil) != (len(deltas) > 0) {
				t.Fatalf("after %q, then %v: %v, commit %v, Partial %+v", a.Hello[:n], end, err, e.Commit, e.Partial)
			}
		}
	}
}

// damages puts pieces into a stream: where content may be lost, the answer is none.
func damages(t *testing.T, a *API) {
	rest, ok := strings.CutPrefix(a.Hello, a.Hel)
	if !ok || len(a.Damaged) == 0 || len(a.Lost) == 0 || len(a.Nothing) == 0 {
		t.Fatal("the suite lacks pieces")
	}
	for _, piece := range a.Damaged {
		deltas, resp, err := Collect(t.Context(), a.serve(t, Says(200, a.Kind, a.Hel+piece+rest), Settings{}), Ask("hi"))
		if err == nil {
			t.Errorf("with %q in it %q was sold as whole", piece, resp.Text())
		} else if e := Failure(t, resp, err); e.Class != llm.Interrupted || e.Partial.Text() != "Hel" || len(deltas) != 1 {
			t.Errorf("with %q: %v of class %v after %+v", piece, e, e.Class, deltas)
		}
		deltas, resp, err = Collect(t.Context(), a.serve(t, Says(200, a.Kind, a.Silent+piece+rest), Settings{}), Ask("hi"))
		if err == nil {
			t.Errorf("with %q before it %q was sold as whole", piece, resp.Text())
		} else if e := Failure(t, resp, err); e.Class != llm.BadOutput || len(deltas) != 0 {
			t.Errorf("%q first: %v of class %v after %+v", piece, e, e.Class, deltas)
		}
	}
	for _, body := range a.Lost {
		for _, req := range []*llm.Request{Ask("hi"), Streamed(&llm.Accumulator{})} {
			resp, err := a.serve(t, Says(200, JSON, body), Settings{}).Call(t.Context(), req)
			if err == nil {
				t.Errorf("%s was taken for an answer: %+v", body, resp)
			} else if e := Failure(t, resp, err); e.Class != llm.BadOutput || e.Partial != nil {
				t.Errorf("%s: %v of class %v, Partial %+v", body, e, e.Class, e.Partial)
			}
		}
	}
	for _, piece := range a.Nothing {
		_, resp, err := Collect(t.Context(), a.serve(t, Says(200, a.Kind, a.Hel+piece+rest), Settings{}), Ask("hi"))
		if err != nil || resp.Text() != "Hello" {
			t.Errorf("with %q: %+v, %v", piece, resp, err)
		}
	}
}

// alike sends failures with status 200 as an answer and as the first event of a stream.
func alike(t *testing.T, a *API) {
	told := a.Told
	if told == nil {
		told = a.Failure
	}
	for message, class := range map[string]llm.Class{
		"the server is overloaded": llm.Overloaded, "rate limit exceeded": llm.RateLimited, "out of luck": llm.Unavailable,
	} {
		_, _, err := Collect(t.Context(), a.serve(t, Says(200, a.Kind, a.Silent+a.InBand(message)), Settings{}), Ask("hi"))
		_, whole := a.serve(t, Says(200, JSON, told(message)), Settings{}).Call(t.Context(), Ask("hi"))
		e := llm.AsError(whole)
		if got := llm.ClassOf(err); got != class || e.Class != class || !strings.Contains(e.Error(), message) {
			t.Errorf("%s: streamed %v, in one piece %v", message, err, whole)
		}
	}
}

func counts(t *testing.T, a *API) {
	for _, c := range []struct {
		input, output string
		want          llm.Usage
	}{
		{"5", "2", llm.Usage{Input: 5, Output: 2}},
		{`"5"`, `"2"`, llm.Usage{Input: 5, Output: 2}},
		{"5.0", "2", llm.Usage{Input: 5, Output: 2}},
		{"-5", "2", llm.Usage{Output: 2, Estimated: true}},
		{`"-5"`, "2", llm.Usage{Output: 2, Estimated: true}},
		{`"many"`, "2", llm.Usage{Output: 2, Estimated: true}},
		{"[5]", "2", llm.Usage{Output: 2, Estimated: true}},
	} {
		resp, err := a.serve(t, Says(200, JSON, a.Counted(c.input, c.output)), Settings{}).Call(t.Context(), Ask("hi"))
		if err != nil || resp.Usage != c.want {
			t.Errorf("%s and %s: %+v, %v; want %+v", c.input, c.output, resp, err, c.want)
		}
	}
	resp, err := a.serve(t, Says(200, JSON, a.Counted("5", "-2")), Settings{}).Call(t.Context(), Ask("hi"))
	if err != nil || resp.Usage.Output < 0 || resp.Usage.Input != 5 || !resp.Usage.Estimated {
		t.Errorf("%+v, %v", resp, err)
	}
}

// noAnswer holds an adapter to saying what came in the place of an answer.
func noAnswer(t *testing.T, a *API) {
	for want, body := range map[string]string{
		"the answer is empty": " \n", "the answer is a page of HTML": "\n<!DOCTYPE html><html><body>Welcome</body></html>",
	} {
		resp, err := a.serve(t, Says(200, "text/html", body), Settings{}).Call(t.Context(), Ask("hi"))
		if e := Failure(t, resp, err); e.Class != llm.BadOutput || !strings.Contains(e.Error(), want) {
			t.Errorf("%v, want %s", e, want)
		}
	}
}
