package sqlstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/llmtest"
	"github.com/modelchain/llm/middleware"
	sqlstore "github.com/modelchain/llm/stores/sql"
)

// A call whose first deployment is overloaded, in the journal.
func Example() {
	if err := journaled(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0 attempts of unknown outcome
	// support-answer: 0 at once, 1 by another deployment, 0 failed
}

func journaled(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := sqlstore.OpenSQLite(ctx, filepath.Join(dir, "llm.db"), sqlstore.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	journal := store.Journal()
	lost, err := journal.Recover(ctx) // what an earlier run left unsettled
	if err != nil {
		return err
	}
	fmt.Println(len(lost), "attempts of unknown outcome")

	chat := llm.New(middleware.Journal(middleware.JournalConfig{Store: journal, Workflow: "support-answer"})).
		Then(middleware.Fallback(middleware.FallbackConfig{},
			&llm.Deployment{Name: "primary", Caller: llmtest.Script(llmtest.Fail(llm.Overloaded))},
			&llm.Deployment{Name: "backup", Caller: llmtest.Script(llmtest.Text("hello"))}))
	if _, err := chat.Call(ctx, &llm.Request{Messages: []llm.Message{llm.User("hi")}}); err != nil {
		return err
	}

	alerts, err := journal.Alerts(ctx, time.Now().Add(-time.Hour))
	if err != nil {
		return err
	}
	for _, a := range alerts {
		fmt.Printf("%s: %d at once, %d by another deployment, %d failed\n", a.Workflow, a.Primary, a.Fallback, a.Failed)
	}
	return nil
}
