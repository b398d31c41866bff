package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	"github.com/modelchain/llm/policy"
	riverqueue "github.com/modelchain/llm/queue/river"
	sqlstore "github.com/modelchain/llm/stores/sql"
	"github.com/modelchain/llm/tokens"
	"github.com/modelchain/llm/tools"
)

const workflow = "support-answer"

// An App is what the assistant needs beside its card: a journal, a queue and the records of its tools, in SQLite files.
type App struct {
	cards fs.FS
	dir   string
	store *sqlstore.Store
	queue *riverqueue.Queue
}

func open(ctx context.Context, cards fs.FS) (a *App, err error) {
	a = &App{cards: cards}
	if a.dir, err = os.MkdirTemp("", "support"); err != nil {
		return nil, err
	}
	if err := tokens.For("primary-model").Load(); err != nil { // as a service does before it serves
		return nil, errors.Join(err, a.close())
	}
	if a.store, err = sqlstore.OpenSQLite(ctx, filepath.Join(a.dir, "journal.db"), sqlstore.Config{}); err != nil {
		return nil, errors.Join(err, a.close())
	}
	if a.queue, err = riverqueue.Open(ctx, riverqueue.Config{DSN: filepath.Join(a.dir, "queue.db")}); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *App) close() error {
	var all []error
	if a.queue != nil {
		all = append(all, a.queue.Close())
	}
	if a.store != nil {
		all = append(all, a.store.Close())
	}
	return errors.Join(append(all, os.RemoveAll(a.dir))...)
}

// hosts send the requests for each host by its own client, as the proof wants it.
type hosts map[string]*http.Client

// RoundTrip forwards.
func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	client, ok := h["http://"+r.URL.Host]
	if !ok {
		return nil, fmt.Errorf("no deployment is at %s", r.URL.Host)
	}
	return client.Transport.RoundTrip(r)
}

// counting counts what a queue took.
type counting struct {
	middleware.Queuer
	n atomic.Int64
}

// Enqueue forwards.
func (q *counting) Enqueue(ctx context.Context, job *middleware.Job) (*middleware.Receipt, error) {
	receipt, err := q.Queuer.Enqueue(ctx, job)
	if err == nil {
		q.n.Add(1)
	}
	return receipt, err
}

// build makes the workflow's chain as its card says, around the deployments of a staging, and states what it promises.
func (a *App) build(s *llmtest.Staging) (llmtest.Promises, error) {
	dir, err := a.writeCards(s)
	if err != nil {
		return llmtest.Promises{}, err
	}
	queue := &counting{Queuer: a.queue}
	ends := []llmtest.Endpoint{s.Primary, s.Backup, s.Unapproved}
	clients := hosts{}
	for _, e := range ends {
		clients[e.URL] = e.Client
	}
	set, err := policy.Load(dir, policy.Options{
		LookupEnv:  func(string) (string, bool) { return "a-key-for-the-proof", true },
		HTTPClient: &http.Client{Transport: clients},
		Journal:    a.store.Journal(), Queue: queue,
		Telemetry: middleware.TelemetryConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		return llmtest.Promises{}, err
	}
	chat, err := set.Caller(workflow)
	if err != nil {
		return llmtest.Promises{}, err
	}
	return llmtest.Promises{
		Caller: chat,
		Request: &llm.Request{
			System:   "Answer as a JSON object with the field answer.",
			Messages: []llm.Message{llm.User("Where is my order?")},
			Labels:   map[string]string{"workflow": workflow},
		},
		Answer:  func(words string) string { return `{"answer": "` + words + `"}` },
		Lacking: `{"reply": "Monday"}`,
		Within:  2 * time.Second, Attempts: 3, Retries: 1, Rest: 500 * time.Millisecond, Held: 2, Window: 8000,
		StandsIn: []llm.Class{llm.Overloaded, llm.Unavailable, llm.Timeout, llm.Stalled, llm.RateLimited, llm.BadOutput},
		Queued:   func() int { return int(queue.n.Load()) },
		RunTools: a.refunds(s.Tool),
	}, nil
}

// writeCards puts the cards into a directory, with the addresses of the deployments.
func (a *App) writeCards(s *llmtest.Staging) (string, error) {
	dir := filepath.Join(a.dir, "cards")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	fill := strings.NewReplacer("{{primary}}", s.Primary.URL, "{{backup}}", s.Backup.URL, "{{unapproved}}", s.Unapproved.URL)
	for _, name := range []string{"support.yaml", "routes.yaml"} {
		text, err := fs.ReadFile(a.cards, name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fill.Replace(string(text))), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// refunds runs the one tool of the assistant, each refund once.
func (a *App) refunds(effect *llmtest.Effect) func(context.Context, string, *llm.Response) error {
	executor := tools.New(tools.Config{Store: a.store.Tools(), Tools: []tools.Tool{{
		Spec: llm.Tool{Name: effect.Name(), Description: "Pays money back.", Parameters: []byte(`{"type":"object"}`)},
		Run: func(ctx context.Context, c tools.Call) (tools.Result, error) {
			return tools.Text("refunded"), effect.Run(ctx, c.Key)
		},
		Reconcile: func(ctx context.Context, c tools.Call) (tools.Result, error) {
			done, err := effect.Look(ctx, c.Key)
			if err == nil && !done {
				err = fmt.Errorf("the bank knows no such payment: %w", tools.ErrNotDone)
			}
			return tools.Text("refunded"), err
		},
	}}})
	return func(ctx context.Context, turn string, answer *llm.Response) error {
		_, err := executor.Run(ctx, turn, answer)
		return err
	}
}
