package wire

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"runtime/debug"
	"sync/atomic"

	"github.com/modelchain/llm"
)

// An Exchange is how far one HTTP request got and what the head of its answer said. SDKs hide the headers of a failure, and
// net/http does not tell in its errors whether a request was sent.
type Exchange struct {
	traced, sent atomic.Bool
	head         atomic.Pointer[head]
	requests     atomic.Int32
}

type head struct {
	status int
	header http.Header
}

type exchangeKey struct{}

// Watch derives a context whose request through a [Transport] is noted in the Exchange.
func Watch(ctx context.Context) (context.Context, *Exchange) {
	x := &Exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// Phase is how far the newest request got. It never says that a request was not sent unless that is sure.
func (x *Exchange) Phase() llm.Phase {
	switch {
	case x.head.Load() != nil:
		return llm.PhaseHeaders
	case x.sent.Load():
		return llm.PhaseSend
	case x.traced.Load():
		return llm.PhaseConnect
	}
	return llm.PhaseUnknown
}

// Head is the status and the headers of the newest answer, 0 and nil before there is one.
func (x *Exchange) Head() (status int, header http.Header) {
	if h := x.head.Load(); h != nil {
		return h.status, h.header
	}
	return 0, nil
}

// Requests is the number of requests that went through the Transport: more than one after a redirect.
func (x *Exchange) Requests() int { return int(x.requests.Load()) }

// A Transport notes each request in the [Exchange] of its context and passes it on unchanged.
type Transport struct {
	// Next does the work. nil: http.DefaultTransport.
	Next http.RoundTripper
}

// RoundTrip passes r on. A panic of the transport beneath, which knows the key, becomes an error without those that can be told.
func (t *Transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			resp, err = nil, &llm.PanicError{Value: Redact(fmt.Sprint(v)), Stack: debug.Stack()}
		}
	}()
	next := t.Next
	if next == nil {
		next = http.DefaultTransport
	}
	x, _ := r.Context().Value(exchangeKey{}).(*Exchange)
	if x == nil {
		return next.RoundTrip(r)
	}
	x.requests.Add(1)
	x.head.Store(nil)
	x.sent.Store(false)
	// Once there is a connection, part of the request may be on its way: from then on it counts as sent.
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { x.traced.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { x.sent.Store(true) },
	}
	resp, err = next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if resp != nil {
		x.head.Store(&head{resp.StatusCode, resp.Header})
	}
	return resp, err
}

// CloseIdleConnections closes those of the transport beneath, where it has them.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Client is a copy of c, or of a plain client if c is nil, whose requests can be watched. It follows a redirect only where
// the request stays what it is and where it was sent to: a POST that turns into a GET is no call of a model, and another
// host must not get the key. Elsewhere the redirect is the answer. A CheckRedirect of c's own stays in force.
func Client(c *http.Client) *http.Client {
	var own http.Client
	if c != nil {
		own = *c
	}
	own.Transport = &Transport{Next: own.Transport}
	if own.CheckRedirect == nil {
		own.CheckRedirect = func(r *http.Request, via []*http.Request) error {
			first := via[0]
			if r.Method != first.Method || r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme || len(via) >= 5 {
				return http.ErrUseLastResponse
			}
			return nil
		}
	}
	return &own
}
