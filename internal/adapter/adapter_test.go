package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/wiretest"
)

// An api reads answers that are lines: at "end" they are whole, "over" says that nothing follows.
type api struct {
	Call
	lines []string
	whole bool
	over  bool
}

func (a *api) Whole(data []byte) (*llm.Response, error) {
	return a.Deliver(&llm.Response{Parts: []llm.Part{llm.Text(string(data))}}, llm.Evidence{})
}

func (a *api) Stream(in io.Reader) (*llm.Response, error) {
	if err := a.Events(in, 0, a); err != nil {
		return nil, err
	}
	return a.Whole([]byte(strings.Join(a.lines, " ")))
}

func (a *api) Event(name, data []byte) error {
	switch line := string(data); {
	case string(name) == "error":
		return a.InBand(data)
	case line == "end":
		a.whole = true
		a.Within(time.Second)
	case line == "over":
		a.over = true
	case line == "broken":
		return a.Damaged(data)
	default:
		a.lines = append(a.lines, line)
		if err := a.Req.Sink(llm.Delta{Text: line}); err != nil {
			return a.SinkFailed(err)
		}
	}
	return nil
}

func (a *api) State() (whole, over bool) { return a.whole, a.over }
func (a *api) Unfinished() error {
	return a.Fail(&llm.Error{Class: llm.Interrupted, Message: "unfinished"})
}
func (a *api) Begun() bool       { return len(a.lines) > 0 }
func (a *api) Usage() llm.Usage  { return llm.Usage{Output: len(a.lines)} }
func (a *api) RequestID() string { return a.FirstHeader("X-None", "Content-Type") }

func (a *api) Partial() *llm.Response {
	if !a.Begun() {
		return nil
	}
	return &llm.Response{Parts: []llm.Part{llm.Text(strings.Join(a.lines, " "))}}
}

// account is one with a key.
func account(t *testing.T, a Account) *Account {
	t.Helper()
	a.Provider = "p"
	FillIn(&a.KeyHeader, "X-Key")
	out, err := NewAccount(a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ask makes a call that is answered so, with a sink that refuses the line "refused".
func ask(t *testing.T, a *Account, kind string, body func(context.Context) io.Reader) (*llm.Response, *llm.Error) {
	t.Helper()
	req := &llm.Request{Messages: []llm.Message{llm.User("hi")}, Sink: func(d llm.Delta) error {
		switch d.Text {
		case "refused":
			return errors.New("full")
		case "slow":
			<-time.NewTimer(time.Hour).C
		}
		return nil
	}}
	c := &api{Call: Call{Model: "m"}}
	c.Init(t.Context(), c, a, req, 100)
	resp, err := c.Post(wiretest.InMemory(http.StatusOK, kind, body), "http://127.0.0.1", nil)
	if err == nil {
		return resp, nil
	}
	return resp, llm.AsError(err)
}

func TestAStreamIsWholeOrSaysWhyNot(t *testing.T) {
	const sep = "\n\ndata: "
	for _, c := range []struct {
		name, body string
		text       string // of a whole answer
		class      llm.Class
		partial    string
		says       string
		took       time.Duration
	}{
		{"to its end", "data: a" + sep + "b" + sep + "end" + sep + "over\n\n", "a b", 0, "", "", EndGrace},
		{"without a word that it is over", "data: a" + sep + "end\n\n", "a", 0, "", "", time.Second},
		{"damaged after it was whole", "data: a" + sep + "end" + sep + "broken\n\n", "a", 0, "", "", 0},
		{"an error after it was whole", "data: a" + sep + "end\n\nevent: error" + sep[1:] + "no\n\n", "a", 0, "", "", 0},
		{"a sink that fails after it was whole", "data: a" + sep + "end" + sep + "refused\n\n", "", llm.Canceled, "a refused", "sink", 0},
		{"a sink that is slow after it was whole", "data: end" + sep + "slow" + sep + "b\n\n", "slow b", 0, "", "", time.Hour + time.Second},
		{"over but not whole", "data: a" + sep + "over\n\n", "", llm.Interrupted, "a", "unfinished", 0},
		{"damaged", "data: a" + sep + "broken\n\n", "", llm.Interrupted, "a", "damaged", 0},
		{"damaged first", "data: broken\n\n", "", llm.BadOutput, "", "damaged", 0},
		{"a bare line between events", "data: a\n\nhello\n\nfoo: x\n\ndata: end\n\n", "a", 0, "", "", time.Second},
		{"an event that lost its framing", "data: a\n\ndta: {\"b\":1}\n\ndata: end\n\n", "", llm.Interrupted, "a", "damaged", 0},
		{"an event that lost its framing beneath another", "data: a\ndta: {\"b\":1}\n\ndata: end\n\n", "", llm.Interrupted, "a", "damaged", 0},
		{"JSON a line, one that is damaged", "{\"a\":1}\nlost\ndata: end\n\n", "", llm.Interrupted, `{"a":1}`, "damaged", 0},
		{"JSON a line, the first damaged", "{\"a\n{\"b\":1}\ndata: end\n\n", "", llm.Interrupted, `{"b":1}`, "damaged", 0},
		{"an event that lost its framing after it was whole", "data: a\n\ndata: end\n\ndta: {\"b\":1}\n\n", "a", 0, "", "", time.Second},
		{"an error by its name", "event: error" + sep[1:] + "the model is overloaded\n\n", "", llm.Overloaded, "", "overloaded", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := time.Now()
				resp, e := ask(t, account(t, Account{}), sseType, func(ctx context.Context) io.Reader {
					return wiretest.Hanging(ctx, c.body)
				})
				if took := time.Since(from); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if c.class == 0 {
					if e != nil || resp.Text() != c.text || resp.RequestID != sseType || resp.Model != "m" || resp.Status != 200 {
						t.Errorf("got %+v, %v", resp, e)
					}
					return
				}
				if resp != nil || e.Class != c.class || !strings.Contains(e.Error(), c.says) {
					t.Fatalf("got %+v, %v of class %v", resp, e, e.Class)
				}
				if e.Partial.Text() != c.partial || e.Evidence.Partial != (c.partial != "") || e.Evidence.Phase != llm.PhaseStream {
					t.Errorf("Partial %+v, phase %v", e.Partial, e.Evidence.Phase)
				}
				if p := e.Partial; p != nil && (p.Model != "m" || p.RequestID != sseType || p.Status != 200 || p.Usage.Output == 0) {
					t.Errorf("Partial does not say where it is from: %+v", p)
				}
			})
		})
	}
}

func TestWhatLiesAboutInAStreamIsEvidence(t *testing.T) {
	for _, c := range []struct {
		name, body string
		class      llm.Class
	}{
		{"a page", "<html>\n<body>Bad gateway</body>\n</html>\n", llm.BadOutput},
		{"an error on many lines, after text", "data: a\n\n{\n \"error\": {\n  \"code\": 429,\n  \"message\": \"rate limit\"\n }\n}\n", llm.Interrupted},
		{"nothing", "", llm.Interrupted},
	} {
		_, e := ask(t, account(t, Account{}), sseType, func(context.Context) io.Reader { return strings.NewReader(c.body) })
		if e.Class != c.class || strings.Contains(c.body, "rate") != strings.Contains(e.Error(), "rate limit") {
			t.Errorf("%s: %v of class %v", c.name, e, e.Class)
		}
	}
}

func TestAnAnswerHasABound(t *testing.T) {
	for n, class := range map[int]llm.Class{100: llm.Unknown, 101: llm.BadOutput} {
		_, e := ask(t, account(t, Account{}), jsonType, func(context.Context) io.Reader { return bytes.NewReader(make([]byte, n)) })
		if got := llm.ClassOf(nilable(e)); got != class {
			t.Errorf("%d bytes: %v", n, e)
		}
	}
}

func nilable(e *llm.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func TestSecretsStayOut(t *testing.T) {
	a := account(t, Account{APIKey: "part-of-a-secret1", Header: http.Header{
		"x-gateway-token": {"Bearer part-of-a-secret1-that-is-longer"}, "X-Plain": {"something-that-is-no-secret"},
	}})
	cause := errors.New("sent part-of-a-secret1-that-is-longer")
	e := a.Classified(t.Context(), &llm.Error{
		Message: "part-of-a-secret1", Err: cause,
		Evidence: llm.Evidence{Status: 400, Body: "part-of-a-secret1-that-is-longer, something-that-is-no-secret",
			Header: http.Header{"X-Echo": {"part-of-a-secret1"}}},
	})
	text := fmt.Sprintf("%v %+v", e, e.Evidence)
	if strings.Contains(text, "part-of") || strings.Contains(text, "longer") || !strings.Contains(text, "something-that-is-no-secret") {
		t.Errorf("got %s", text)
	}
	if !errors.Is(e, cause) || e.Provider != "p" {
		t.Errorf("got %v of %q", e, e.Provider)
	}
	short := account(t, Account{APIKey: "ollama"})
	if e := short.Classified(t.Context(), &llm.Error{Message: "ollama is not there"}); !strings.Contains(e.Message, "ollama") {
		t.Errorf("a word was taken for a key: %v", e)
	}
	twice := &url.Error{Op: "Post", URL: "http://a?key=b", Err: &url.Error{Op: "Get", URL: "http://c", Err: io.ErrUnexpectedEOF}}
	if got := Plain(fmt.Errorf("x: %w", twice)); !errors.Is(got, io.ErrUnexpectedEOF) || strings.Contains(got.Error(), "http") {
		t.Errorf("got %v", got)
	}
}

func TestWhyAKeyCouldNotBeHadDecides(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want llm.Class
	}{
		{"for no known reason", errors.New("sealed"), llm.Auth},
		{"for a reason with a class", &llm.Error{Class: llm.RateLimited}, llm.RateLimited},
		{"for a class alone", llm.Overloaded, llm.Overloaded},
		{"for a context of its own", context.Canceled, llm.Unavailable},
		{"for a time of its own", &llm.Error{Class: llm.Exhausted, Err: context.DeadlineExceeded}, llm.Timeout},
	} {
		a := account(t, Account{Key: func(context.Context) (string, error) { return "", c.err }})
		if _, e := a.KeyFor(t.Context()); llm.ClassOf(a.Classified(t.Context(), e)) != c.want {
			t.Errorf("%s: %v, want %v", c.name, a.Classified(t.Context(), e), c.want)
		}
	}
}

func TestAPartsPatchIsThatOfBothNames(t *testing.T) {
	p := &llm.Part{Extra: map[string]json.RawMessage{
		"api": json.RawMessage(`{"cache":{"ttl":1,"kind":"a"},"x":1}`), "mine": json.RawMessage(`{"x":null,"cache":{"kind":null}}`),
	}}
	got, bad := Patch(p, ExtraNames("api", "mine"), Place{})
	if want := `{"cache":{"ttl":1,"kind":null},"x":null}`; bad != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, bad, want)
	}
	p.Extra["mine"] = json.RawMessage(`7`)
	if _, bad := Patch(p, ExtraNames("api", "mine"), Place{1, 2}); bad == nil || !strings.Contains(bad.Message, `Extra["mine"] of Messages[1].Parts[2]`) {
		t.Errorf("got %v", bad)
	}
	if got, bad := Patch(p, []string{"other"}, Place{}); got != nil || bad != nil {
		t.Errorf("got %s, %v", got, bad)
	}
}
