// Prove puts the policy card of a support assistant to the proof: providers on loopback fail in each way that there is, and the
// program writes what was expected and what was observed, as text and as JUnit XML. Its exit code is 1 if a condition fails.
//
//	go run ./examples/prove [directory]
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/modelchain/llm/llmtest"
)

//go:embed support.yaml routes.yaml
var cards embed.FS

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr, cards)
	cancel()
	os.Exit(code)
}

// The exit codes.
const (
	allHeld   = 0
	oneFailed = 1
	unusable  = 2 // the proof could not be made
)

// command proves the cards and writes the report into the directory that args name, or into a new one.
func command(ctx context.Context, args []string, out, errOut io.Writer, cards fs.FS) int {
	report, err := prove(ctx, cards)
	if err == nil {
		err = write(report, args, out)
	}
	switch {
	case err != nil:
		_, _ = fmt.Fprintln(errOut, "prove:", err)
		return unusable
	case !report.OK():
		return oneFailed
	}
	return allHeld
}

func prove(ctx context.Context, cards fs.FS) (report *llmtest.Report, err error) {
	a, err := open(ctx, cards)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	return llmtest.ProveLoopback(ctx, a.build)
}

// write prints the report and puts it into report.txt and junit.xml.
func write(report *llmtest.Report, args []string, out io.Writer) (err error) {
	var dir string
	if len(args) > 0 {
		dir = args[0]
		err = os.MkdirAll(dir, 0o750)
	} else {
		dir, err = os.MkdirTemp("", "prove")
	}
	if err != nil {
		return err
	}
	if err := report.WriteText(out); err != nil {
		return err
	}
	for name, writeTo := range map[string]func(io.Writer) error{
		"report.txt": report.WriteText,
		"junit.xml":  func(w io.Writer) error { return report.WriteJUnit(w, workflow) },
	} {
		f, err := os.Create(filepath.Join(dir, name)) //nolint:gosec // where the user wants it
		if err != nil {
			return err
		}
		if err := errors.Join(writeTo(f), f.Close()); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "written to %s: report.txt, junit.xml\n", dir)
	return err
}
