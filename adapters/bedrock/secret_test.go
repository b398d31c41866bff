package bedrock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelchain/llm/adapters/bedrock"
)

func TestAPrintedConfigCarriesNoKey(t *testing.T) {
	c := bedrock.Config{Region: "us-east-1", Model: "nova-x", APIKey: "made-up-key"}
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%v", &c)} {
		if strings.Contains(s, c.APIKey) || !strings.Contains(s, c.Model) {
			t.Errorf("printed as %q", s)
		}
	}
	if s := fmt.Sprintf("%+v", bedrock.New(c)); strings.Contains(s, c.APIKey) {
		t.Errorf("a Model is printed as %q", s)
	}
}
