package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelchain/llm/llmtest"
)

// asMain makes the test's own binary the command.
const asMain = "LLMPROVIDER_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// asks sends a request and returns the status.
func asks(t *testing.T, url string) int {
	t.Helper()
	body := strings.NewReader(`{"model":"gpt-4o","messages":[{"role":"user","content":"<hi>"}]}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer sk-made-up")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// logged reads a row of the log.
func logged(t *testing.T, out *bufio.Reader) (llmtest.Exchange, string) {
	t.Helper()
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var x llmtest.Exchange
	if err := json.Unmarshal([]byte(line), &x); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	return x, line
}

func TestTheCommandPrintsItsURLAndARowForEachRequestAndEndsBySIGINT(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-scenario", "scenarios/flaky.json") //nolint:gosec // the test's own
	cmd.Env = append(os.Environ(), asMain+"=1")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	url, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	for i := range 2 {
		if status := asks(t, strings.TrimSpace(url)); status != 429 {
			t.Errorf("status %d", status)
		}
		x, line := logged(t, out)
		if x.N != i+1 || x.Did != "rate_limited" || x.Status != 429 || x.Model != "gpt-4o" || !strings.Contains(x.Body, "<hi>") ||
			strings.Contains(line, "sk-made-up") {
			t.Errorf("the log says %s", line)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("%v, then %s", err, rest)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended in %v: %s", err, problems.String())
	}
}

func TestFlagsMakeAScenarioOfOneTurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error)
	go func() {
		ended <- run(ctx, []string{"-do", "raw", "-status", "418", "-bodies=false"}, w, io.Discard)
		_ = w.Close()
	}()
	out := bufio.NewReader(r)
	url, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	rows := make(chan llmtest.Exchange)
	go func() {
		x, _ := logged(t, out)
		rows <- x
	}()
	if status := asks(t, strings.TrimSpace(url)); status != 418 {
		t.Errorf("status %d", status)
	}
	if x := <-rows; x.Body != "" || x.Status != 418 {
		t.Errorf("the log says %+v", x)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestMistakesAreToldWithTheirMend(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{\"routes\": [\n{\"turns\": [{\"do\": \"overloadd\"}]}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-scenario", bad}, `bad.json: line 2: routes[0].turns[0].do: there is no act "overloadd"; did you mean "overloaded"?`},
		{[]string{"-scenario", "nowhere.json"}, "the scenario cannot be opened"},
		{[]string{"-scenario", bad, "-do", "reset"}, "-do is beside -scenario"},
		{[]string{"-do", "sulk"}, `there is no act "sulk"`},
		{[]string{"flaky.json"}, `"flaky.json" is no flag; write -scenario flaky.json`},
		{[]string{"-nope"}, "llmprovider -help lists what there is"},
		{[]string{"-addr", "256.0.0.1:0"}, "nothing can listen at 256.0.0.1:0"},
	} {
		if err := run(t.Context(), c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %s", c.args, err, c.says)
		}
	}
}

func TestTheHelpTeaches(t *testing.T) {
	var help strings.Builder
	if err := run(t.Context(), []string{"-help"}, io.Discard, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	text := help.String()
	for _, a := range llmtest.Acts() {
		if !strings.Contains(text, "\n  "+string(a)+" ") {
			t.Errorf("the help lacks %s", a)
		}
	}
	begin, end := strings.Index(text, `  {"seed"`), strings.Index(text, "\n\nOf a turn")
	if begin < 0 || end < begin {
		t.Fatal("the help has no example")
	}
	example, err := llmtest.ReadScenario(strings.NewReader(text[begin:end]))
	if err != nil || len(example.Routes) != 4 {
		t.Errorf("the example of the help: %v", err)
	}
}

func TestTheScenariosThatShipAreRight(t *testing.T) {
	files, err := filepath.Glob("scenarios/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		if cfg, err := read(file); err != nil || len(cfg.Routes) == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}
