package bedrock_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/bedrock"
	"github.com/modelchain/llm/internal/wiretest"
)

func TestACallCanceledWithinAFrameHangsUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := wiretest.Stall(200, frameType, begun+piece("Hel")[:30])
	go func() {
		<-server.Reached
		cancel()
	}()
	resp, err := serve(t, server.ServeHTTP).Call(ctx, wiretest.Streamed(&llm.Accumulator{}))
	if e := wiretest.Failure(t, resp, err); e.Class != llm.Canceled {
		t.Errorf("%v of class %v", e, e.Class)
	}
	<-server.Closed
}

func TestACallCanceledWhileCredentialsAreFetchedIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := bedrock.New(bedrock.Config{Region: "us-east-1", Model: "m", Credentials: aws.CredentialsProviderFunc(
		func(ctx context.Context) (aws.Credentials, error) {
			cancel()
			return aws.Credentials{}, ctx.Err()
		})})
	_, err := m.Call(ctx, wiretest.Ask("Hello?"))
	if e := llm.AsError(err); e.Class != llm.Canceled || e.Commit != llm.CommitNone {
		t.Errorf("%v of class %v, commit %v", err, e.Class, e.Commit)
	}
}

func TestUsageIsNotWaitedForWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := bedrock.New(bedrock.Config{Region: "us-east-1", Model: "m", HTTPClient: wiretest.InMemory(200, frameType,
			func(ctx context.Context) io.Reader { return wiretest.Hanging(ctx, begun+piece("Hello")+closed+ended) })})
		from := time.Now()
		resp, err := m.Call(t.Context(), wiretest.Streamed(&llm.Accumulator{}))
		if took := time.Since(from); err != nil || resp.Text() != "Hello" || took > 2*time.Second {
			t.Errorf("after %v: %+v, %v", took, resp, err)
		}
	})
}
