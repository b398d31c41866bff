package openai_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/internal/wiretest"
)

func embed(ctx context.Context, m *openai.Model) (sdk.EmbeddingResponse, error) {
	r, err := m.Client().CreateEmbeddings(ctx, sdk.EmbeddingRequestStrings{Input: []string{"hi"}, Model: "embed-1"})
	return r, m.AsError(ctx, err)
}

func TestTheSDKsClientUsesTheModelsSettings(t *testing.T) {
	s := &wiretest.Recorder{Next: wiretest.Says(200, wiretest.JSON, `{"data":[{"index":0,"embedding":[0.5]}],"model":"embed-1"}`)}
	m := serve(t, s, openai.Config{APIKey: "k-123456", Organization: "org-1", Header: http.Header{"X-Mine": {"1"}}})
	r, err := embed(t.Context(), m)
	if err != nil || len(r.Data) != 1 || r.Data[0].Embedding[0] != 0.5 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if s.Last().URL.RequestURI() != "/embeddings" || s.Last().Header.Get("Authorization") != "Bearer k-123456" || s.Last().Header.Get("X-Mine") != "1" ||
		s.Last().Header.Get("Openai-Organization") != "org-1" {
		t.Errorf("sent to %s with %v", s.Last().URL.RequestURI(), s.Last().Header)
	}
}

func TestTheSDKsClientFindsAzure(t *testing.T) {
	const data = `{"data":[]}`
	for path, cfg := range map[string]openai.Config{
		"/openai/deployments/embed-1/embeddings?api-version=2024-10-21": {Provider: "azure", APIVersion: "2024-10-21", Model: "d", APIKey: "k"},
		"/openai/v1/embeddings": {Provider: "azure", APIKey: "k"},
	} {
		s := &wiretest.Recorder{Next: wiretest.Says(200, wiretest.JSON, data)}
		m := serve(t, s, cfg)
		if _, err := embed(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if s.Last().URL.RequestURI() != path || s.Last().Header.Get("Api-Key") != "k" || s.Last().Header.Get("Authorization") != "" {
			t.Errorf("sent to %s with %v, want %s", s.Last().URL.RequestURI(), s.Last().Header, path)
		}
	}
}

func TestFailuresOfTheSDKsClientCarryEvidence(t *testing.T) {
	for name, class := range map[string]llm.Class{
		"rate_limit": llm.RateLimited, "quota": llm.Quota, "mistral_flat": llm.Overloaded, "ollama_text": llm.NotFound, "html_502": llm.Unavailable,
		"html_200": llm.BadOutput, "empty_200": llm.BadOutput, "error_in_200": llm.RateLimited, "redirect": llm.NotFound,
	} {
		t.Run(name, func(t *testing.T) {
			f := wiretest.Load(t, "testdata/"+"failures/"+name+".http")
			s := &wiretest.Recorder{Next: f}
			_, err := embed(t.Context(), serve(t, s, openai.Config{}))
			e := wiretest.Failure(t, nil, err)
			if e.Class != class || e.Evidence.Status != f.Status || e.Evidence.Body != f.Body || e.RequestID != f.Header.Get("X-Request-Id") {
				t.Errorf("got %v: status %d, body %q, request id %q", e, e.Evidence.Status, e.Evidence.Body, e.RequestID)
			}
			if name == "rate_limit" && e.RetryAfter != 494*time.Millisecond {
				t.Errorf("wait %v", e.RetryAfter)
			}
			if s.Calls() != 1 {
				t.Errorf("%d requests for one call", s.Calls())
			}
		})
	}
}

func TestTheSDKsClientTellsACutAnswerAndALeavingCaller(t *testing.T) {
	cut := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", wiretest.JSON)
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, `{"data":[`+strings.Repeat(" ", 8<<10))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}), openai.Config{})
	_, err := embed(t.Context(), cut)
	if e := wiretest.Failure(t, nil, err); e.Class != llm.Interrupted || e.Evidence.Phase != llm.PhaseBody || e.Evidence.Status != 200 {
		t.Errorf("got %v, phase %v", e, e.Evidence.Phase)
	}
	s := wiretest.Stall(0, "", "")
	m := serve(t, s, openai.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.Reached
		cancel()
	}()
	_, err = embed(ctx, m)
	if e := wiretest.Failure(t, nil, err); e.Class != llm.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", e)
	}
	<-s.Closed
}

func TestTheSDKsStreamsPass(t *testing.T) {
	m := serve(t, wiretest.Says(200, wiretest.SSE, first+second+end+done), openai.Config{})
	s, err := m.Client().CreateChatCompletionStream(t.Context(), sdk.ChatCompletionRequest{Model: "m", Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for {
		r, err := s.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("ended with %v", err)
			}
			break
		}
		text += r.Choices[0].Delta.Content
	}
	if err := s.Close(); err != nil || text != "Hello" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestAKeyThatCannotBeHadEndsACallOfTheSDKsClient(t *testing.T) {
	s := ok()
	sealed := errors.New("vault is sealed")
	_, err := embed(t.Context(), serve(t, s, openai.Config{Key: func(context.Context) (string, error) { return "", sealed }}))
	if e := wiretest.Failure(t, nil, err); e.Class != llm.Auth || !errors.Is(err, sealed) || s.Calls() != 0 {
		t.Errorf("got %v after %d requests", e, s.Calls())
	}
}

func TestAsErrorReadsTheSDKsOwnErrors(t *testing.T) {
	param := "messages"
	m := openai.New(openai.Config{APIKey: "pb_plain-looking"})
	tests := []struct {
		name  string
		err   error
		class llm.Class
		check func(*llm.Error) bool
	}{
		{"an API error", &sdk.APIError{HTTPStatusCode: 429, Type: "insufficient_quota", Message: "no more"}, llm.Quota,
			func(e *llm.Error) bool { return e.Evidence.Status == 429 && e.Evidence.Message == "no more" }},
		{"a number as code", &sdk.APIError{Code: 503, Message: "busy"}, llm.Unavailable,
			func(e *llm.Error) bool { return e.Evidence.Code == "503" }},
		{"a param", &sdk.APIError{HTTPStatusCode: 400, Code: "context_length_exceeded", Param: &param}, llm.TooLong,
			func(e *llm.Error) bool { return e.Evidence.Param == "messages" }},
		{"Azure's filter", &sdk.APIError{HTTPStatusCode: 400, InnerError: &sdk.InnerError{Code: "ResponsibleAIPolicyViolation"}}, llm.Refused,
			func(e *llm.Error) bool { return true }},
		{"a request error before the empty API error in it", &sdk.RequestError{HTTPStatusCode: 404, HTTPStatus: "404 Not Found",
			Err: &sdk.APIError{}, Body: []byte(`{"error":"model \"x\" not found, try pulling it first"}`)}, llm.NotFound,
			func(e *llm.Error) bool {
				return e.Evidence.Status == 404 && strings.Contains(e.Evidence.Body, "pulling")
			}},
		{"a key in a body", &sdk.RequestError{HTTPStatusCode: 401, Body: []byte("bad key pb_plain-looking")}, llm.Auth,
			func(e *llm.Error) bool { return !strings.Contains(e.Error()+e.Evidence.Body, "plain-looking") }},
		{"a broken connection", io.ErrUnexpectedEOF, llm.Interrupted, func(*llm.Error) bool { return true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := m.AsError(t.Context(), tt.err)
			e := wiretest.Failure(t, nil, err)
			if e.Class != tt.class || e.Provider != "openai" || !errors.Is(err, tt.err) || !tt.check(e) {
				t.Errorf("got %v, evidence %+v", e, e.Evidence)
			}
		})
	}
	if err := m.AsError(t.Context(), nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.AsError(ctx, io.ErrUnexpectedEOF); llm.ClassOf(err) != llm.Canceled {
		t.Errorf("got %v under an ended context", err)
	}
}

func TestOtherCallsAreGuardedByDo(t *testing.T) {
	s := &wiretest.Recorder{Next: wiretest.Load(t, "testdata/"+"failures/rate_limit.http")}
	m := serve(t, s, openai.Config{})
	g := llm.NewGuard("embeddings", llm.New())
	_, err := llm.Do(t.Context(), g, func(ctx context.Context) (sdk.EmbeddingResponse, error) { return embed(ctx, m) })
	e := wiretest.Failure(t, nil, err)
	if e.Class != llm.RateLimited || e.RetryAfter != 494*time.Millisecond || len(e.Attempts) != 1 || e.Attempts[0].Status != 429 {
		t.Errorf("got %v, wait %v, attempts %+v", e, e.RetryAfter, e.Attempts)
	}
}
