package llm_test

import (
	"net/http"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
)

func model(url string, client *http.Client) llm.Caller {
	return openai.New(openai.Config{BaseURL: url + "/v1", APIKey: "k", HTTPClient: client})
}
