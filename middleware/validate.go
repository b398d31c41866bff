package middleware

import (
	"context"

	"github.com/modelchain/llm"
)

// Validate is the stage "validate": it turns an answer that check finds unusable into a failure of class BadOutput, with
// check's error in its chain. That failure is repeated once and may move elsewhere; it cools nothing. check must not change
// what it is given and must be safe for concurrent use. Its error's text goes into errors and accounts, so it should not
// quote the answer.
//
// A refusal is an answer and passes unchecked.
//
// Streams: check sees the whole answer, when its deltas have gone out. The failure then is Partial and ends the call. Only
// a commit window outside that holds back the whole answer lets it be repeated.
//
// It belongs around one deployment, inside retry and outside attempt_timeout. It never changes an answer. It panics if
// check is nil.
func Validate(check func(*llm.Request, *llm.Response) error) llm.Stage {
	if check == nil {
		panic("llm/middleware: Validate: check is nil; leave the stage out")
	}
	wrap := func(next llm.Caller) llm.Caller { return &validate{next, check} }
	return llm.Stage{Name: "validate", Wrap: wrapping("Validate", wrap)}
}

type validate struct {
	next  llm.Caller
	check func(*llm.Request, *llm.Response) error
}

func (s *validate) Describe() llm.Node {
	return llm.Node{Name: "validate", Children: []llm.Node{llm.Describe(s.next)}}
}

func (s *validate) Call(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	resp, err := s.next.Call(ctx, req)
	if err != nil || resp == nil || resp.Refused() {
		return resp, err
	}
	bad := s.check(req, resp)
	if bad == nil {
		return resp, nil
	}
	e := &llm.Error{
		Class: llm.BadOutput, Message: "the answer failed its check",
		Evidence: llm.Evidence{Status: resp.Status}, Err: bad,
	}
	if req != nil && req.Sink != nil {
		e.Partial = resp
	}
	return nil, resp.Reject(e)
}
