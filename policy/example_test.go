package policy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/policy"
)

// region: program
func answer(ctx context.Context, path, question string) (string, error) {
	set, err := policy.Load(path, policy.Options{})
	if err != nil {
		return "", err // what is wrong in which line, and how to mend it
	}
	chat, err := set.Caller("support-answer")
	if err != nil {
		return "", err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go set.Watch(watching, 5*time.Second, func(err error) {
		if err != nil {
			fmt.Println("the old policy goes on:", err)
		}
	})
	resp, err := chat.Call(ctx, &llm.Request{Messages: []llm.Message{llm.User(question)}})
	if err != nil {
		return "", err
	}
	return resp.Text(), nil
}

// endregion

func Example() {
	dir, err := os.MkdirTemp("", "policy")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "support.yaml")
	card := "workflow: support-answer\nmax_elapsed_ms: 9s\n---\nroutes:\n  a: {provider: groqq, model: llama}\n"
	if err := os.WriteFile(path, []byte(card), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	_, err = answer(context.Background(), path, "Where is my parcel?")
	for _, e := range err.(policy.Errors) { //nolint:errorlint,forcetypeassert // of Load
		e.File = filepath.Base(e.File)
		fmt.Println(e)
	}
	// Output:
	// support.yaml:2:17: max_elapsed_ms is the text "9s", not a whole number of milliseconds; write max_elapsed_ms: 9000
	// support.yaml:5:17: the provider "groqq" is not known; did you mean "groq"?
}
