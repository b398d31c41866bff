// Customstage shows a team's own wrapper in the onion: it keeps e-mail addresses from leaving the house. Its test swaps a
// stage by name.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/middleware"
)

var email = regexp.MustCompile(`[\w.+-]+@[\w-]+\.[\w.]+`)

// region: mask

// Mask replaces e-mail addresses in what users wrote. It belongs outside everything that calls more than once, so that it
// works once a call. Streams pass through it untouched.
func Mask() llm.Stage {
	return llm.Stage{Name: "mask", Wrap: func(next llm.Caller) llm.Caller {
		return llm.CallerFunc(func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			return next.Call(ctx, masked(req))
		})
	}}
}

// masked is a clone of req: a stage never writes to the request it received, and that goes for its messages too.
func masked(req *llm.Request) *llm.Request {
	out := req.Clone()
	if out == nil {
		return nil
	}
	out.Messages = make([]llm.Message, len(req.Messages))
	for i, m := range req.Messages {
		parts := make([]llm.Part, len(m.Parts))
		for j, p := range m.Parts {
			p.Text = email.ReplaceAllString(p.Text, "[e-mail]")
			parts[j] = p
		}
		out.Messages[i] = llm.Message{Role: m.Role, Parts: parts}
	}
	return out
}

// endregion

// chain is the team's onion for one deployment.
func chain() llm.Chain {
	return llm.New(
		middleware.Deadline(middleware.DeadlineConfig{}),
		Mask(),
		middleware.Retry(middleware.RetryConfig{}),
		middleware.Classify(middleware.ClassifyConfig{}),
	)
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "customstage:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	echo := llm.CallerFunc(func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		return &llm.Response{Parts: []llm.Part{llm.Text("You said: " + req.Messages[0].Parts[0].Text)}}, nil
	})
	gateway := chain().Then(&llm.Deployment{Name: "echo", Caller: echo})
	resp, err := gateway.Call(ctx, &llm.Request{Messages: []llm.Message{llm.User("Write to jane@example.com, please.")}})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%v\n\n%s\n", gateway, resp.Text())
	return err
}
