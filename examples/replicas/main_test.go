package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/modelchain/llm/internal/redistest"
)

var update = flag.Bool("update", false, "write testdata/output.txt anew")

// TestMain is also each replica.
func TestMain(m *testing.M) {
	if os.Getenv(envReplica) == "" {
		os.Exit(m.Run())
	}
	if err := replicaMain(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The whole output is known: who meets the outage, who learns of it from whom, and who calls what.
func TestWhatOneReplicaLearnsSparesTheOthers(t *testing.T) {
	const golden = "testdata/output.txt"
	url, _ := redistest.Start(t)
	t.Setenv("REDIS_URL", url)
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestWithoutARedisItSaysWhatToInstall(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	t.Setenv("PATH", t.TempDir())
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil || !strings.Contains(out.String(), "apt-get install redis-server") {
		t.Errorf("%v, %q", err, out.String())
	}
}
