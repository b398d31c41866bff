// Llmprovider is a model provider that fails like the real ones: an HTTP server on loopback that speaks OpenAI Chat Completions
// and Responses, Anthropic Messages, Gemini and Bedrock Converse, whole and streamed, so that any client in any language can be
// tried against it. It prints its URL, then a line of JSON for each request, and ends by SIGINT. Scenarios to begin with are in
// its folder scenarios; -help teaches the rest.
//
//	go run github.com/modelchain/llm/llmtest/cmd/llmprovider -do rate_limited -retry-after 2s
//	go run github.com/modelchain/llm/llmtest/cmd/llmprovider -scenario outage.json
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/modelchain/llm/llmtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "llmprovider:", err)
		os.Exit(2)
	}
}

// run serves until ctx ends. The URL and the log go to out, help to help.
func run(ctx context.Context, args []string, out, help io.Writer) error {
	flags := flag.NewFlagSet("llmprovider", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	addr := flags.String("addr", "127.0.0.1:0", "the `address` to listen at; port 0 is a free one")
	file := flags.String("scenario", "", "a `file` of JSON that says what is done with which request")
	seed := flags.Uint64("seed", 0, "the seed of all draws, in the place of the scenario's")
	bodies := flags.Bool("bodies", true, "log the bodies of requests")
	var turn llmtest.Turn
	do := flags.String("do", "", "the `act` for every request, without a scenario; the list is below")
	flags.StringVar(&turn.Text, "text", "", "the text of answers, an event for each word")
	flags.IntVar(&turn.At, "at", 0, "how many pieces come before what breaks an answer")
	flags.IntVar(&turn.Status, "status", 0, "the status in the place of the act's own")
	flags.DurationVar(&turn.RetryAfter, "retry-after", 0, "the wait that a failure asks for")
	flags.DurationVar(&turn.Wait.Fixed, "wait", 0, "what passes before the headers")
	flags.DurationVar(&turn.First.Fixed, "first", 0, "what passes between the headers and the first piece")
	flags.DurationVar(&turn.Gap.Fixed, "gap", 0, "what passes before each further piece")
	flags.DurationVar(&turn.Hold, "hold", 0, "how long silence and stall last; 0: until the client leaves")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			teach(help, flags)
			return err
		}
		return fmt.Errorf("%w; llmprovider -help lists what there is", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag; write -scenario %[1]s if it is a file", flags.Arg(0))
	}
	turn.Do = llmtest.Act(*do)
	cfg := llmtest.Turns(turn)
	if *file != "" {
		var beside string
		flags.Visit(func(f *flag.Flag) {
			if !slices.Contains([]string{"addr", "scenario", "seed", "bodies"}, f.Name) {
				beside = f.Name
			}
		})
		if beside != "" {
			return fmt.Errorf("-%s is beside -scenario, whose turns say that; leave out one of them", beside)
		}
		var err error
		if cfg, err = read(*file); err != nil {
			return err
		}
	}
	cfg.Seed = cmp.Or(*seed, cfg.Seed)
	log := json.NewEncoder(out)
	log.SetEscapeHTML(false)
	var broken error // guarded by the provider, which logs one at a time
	cfg.Log = func(x llmtest.Exchange) {
		if !*bodies {
			x.Body = ""
		}
		if err := log.Encode(x); err != nil && broken == nil {
			broken = fmt.Errorf("the log cannot be written: %w", err)
		}
	}
	p, err := llmtest.StartProvider(*addr, cfg)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, p.URL); err != nil {
		p.Close()
		return fmt.Errorf("the URL cannot be written: %w", err)
	}
	<-ctx.Done()
	p.Close()
	return broken
}

func read(file string) (llmtest.ProviderConfig, error) {
	f, err := os.Open(file) //nolint:gosec // the user's own
	if err != nil {
		return llmtest.ProviderConfig{}, fmt.Errorf("the scenario cannot be opened: %w", err)
	}
	defer func() { _ = f.Close() }()
	cfg, err := llmtest.ReadScenario(f)
	if err != nil {
		return cfg, fmt.Errorf("%s: %w", file, err)
	}
	return cfg, nil
}

// teach says what the command does and how to use it.
func teach(w io.Writer, flags *flag.FlagSet) {
	_, _ = fmt.Fprint(w, `llmprovider is a model provider that fails like the real ones.

It takes any key. Give your client its URL as the base URL:
  OpenAI       URL/v1            chat/completions, responses
  Anthropic    URL               /v1/messages
  Gemini       URL               /v1beta/models/MODEL:generateContent, :streamGenerateContent; Vertex AI's paths too
  Bedrock      URL               /model/MODEL/converse, converse-stream

The first line of its output is the URL. Each further line is a request as JSON: when it came, what was asked, what was
answered, and whether the client hung up. Keys are not logged, bodies are (-bodies=false leaves them out). SIGINT ends it.

Flags:
`)
	flags.SetOutput(w)
	flags.PrintDefaults()
	_, _ = fmt.Fprint(w, "\nActs:\n")
	for _, a := range llmtest.Acts() {
		_, _ = fmt.Fprintf(w, "  %-15s %s\n", a, a.Help())
	}
	_, _ = fmt.Fprintf(w, scenarioHelp, 250*time.Millisecond)
}

const scenarioHelp = `
A scenario is a file of routes. The first whose model, api ("chat", "responses", "anthropic", "gemini", "bedrock") and header a
request meets does its next turn; the last turn is repeated for ever. Times are texts such as "%v".

  {"seed": 1, "routes": [
    {"model": "gpt-4o", "turns": [
      {"do": "rate_limited", "retry_after": "2s", "times": 3},
      {"do": "stall", "text": "one two three four", "at": 2},
      {"text": "well again", "first": {"median": "400ms", "sigma": 0.5}, "gap": "30ms"}]},
    {"model": "claude-*", "quota": {"requests": 5, "per": "1m"}},
    {"api": "gemini", "outages": [{"from": "10s", "to": "40s", "turn": {"do": "overloaded"}}]},
    {"turns": [{"one_of": [{"weight": 9, "text": "ok"}, {"weight": 1, "do": "reset"}]}]}]}

Of a turn: do, name, times, one_of, weight; text, pieces, reasoning, calls, stop, usage, no_usage, model; wait, first, gap (a
time, or fixed, min and max, median and sigma); at, hold, error, retry_after, status, header, body, content_type.
Of a route: name, model, api, header, turns, outages (from, to, turn), quota (requests, tokens, per, then), wait.
`
