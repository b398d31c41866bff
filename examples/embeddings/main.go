// Embeddings puts the stages of a chat gateway around another kind of model call. Both share one Cooldowns and a quota, so
// a rate limit that embeddings run into rests the chat deployment of the same quota too.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/middleware"
)

// An Embedder turns texts into vectors.
type Embedder struct {
	client *sdk.Client
	guard  *llm.Guard
}

// NewEmbedder guards embeddings calls made with api's address and key.
func NewEmbedder(api *openai.Model, cooldowns *middleware.Cooldowns) *Embedder {
	return &Embedder{
		client: api.Client(),
		guard: llm.NewGuard("openai", llm.New(
			middleware.Deadline(middleware.DeadlineConfig{Total: 10 * time.Second}),
			cooldowns.Stage(),
			middleware.Retry(middleware.RetryConfig{Base: 100 * time.Millisecond}),
			middleware.Classify(middleware.ClassifyConfig{}),
		)),
	}
}

// Embed is the vector of text.
func (e *Embedder) Embed(ctx context.Context, text string) ([]float32, error) {
	return llm.Do(ctx, e.guard, func(ctx context.Context) ([]float32, error) {
		resp, err := e.client.CreateEmbeddings(ctx, sdk.EmbeddingRequest{Input: []string{text}, Model: sdk.SmallEmbedding3})
		switch {
		case err != nil:
			return nil, err
		case len(resp.Data) == 0:
			return nil, llm.BadOutput
		}
		return resp.Data[0].Embedding, nil
	})
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "embeddings:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	server := startProvider()
	defer server.Close()
	api := openai.New(openai.Config{BaseURL: server.URL + "/v1", Model: "gpt-4o"})
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{})
	embedder := NewEmbedder(api, cooldowns)
	chat := llm.New(
		cooldowns.Stage(),
		middleware.Classify(middleware.ClassifyConfig{}),
	).Then(&llm.Deployment{Name: "openai", Caller: api}) // the same name: one rest for both

	fmt.Fprintf(out, "The onion around embeddings:\n%v\n", embedder.guard.Describe())

	vector, err := embedder.Embed(ctx, "tea")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n\"tea\", after one overloaded answer that was retried: %v\n", vector)

	_, err = embedder.Embed(ctx, "more tea")
	fmt.Fprintf(out, "\n\"more tea\": %v\n", err)

	_, err = chat.Call(ctx, &llm.Request{Messages: []llm.Message{llm.User("Is there tea?")}})
	if !errors.Is(err, llm.Cooling) {
		return fmt.Errorf("the chat deployment does not rest: %w", err)
	}
	fmt.Fprintf(out, "\nchat, which nobody called: %v\n", err)
	return nil
}
