package sqlstore

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/modelchain/llm/middleware"
)

// TestMain is also the process that the crash test kills.
func TestMain(m *testing.M) {
	if dsn := os.Getenv("SQLSTORE_CHILD"); dsn != "" {
		fmt.Println(child(dsn))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// child begins attempts and settles every other one, and says of each what was acknowledged, until it is killed.
func child(dsn string) error {
	ctx := context.Background()
	open := OpenSQLite
	if os.Getenv("SQLSTORE_KIND") == "postgres" {
		open = OpenPostgres
	}
	s, err := open(ctx, dsn, Config{Lease: time.Hour}) // it lasts, however long a busy machine takes to look
	if err != nil {
		return err
	}
	j := s.Journal()
	failed := make(chan error)
	for w := range int64(32) {
		go func() {
			for n := w; ; n += 32 {
				a := attemptRow(n)
				if err := j.Begin(ctx, a); err != nil {
					failed <- err
				}
				fmt.Println("begun", a.Call)
				if n%2 == 0 {
					continue
				}
				a.State = middleware.JournalAnswered
				if err := j.Settle(ctx, a); err != nil {
					failed <- err
				}
				fmt.Println("settled", a.Call)
			}
		}()
	}
	return <-failed
}
