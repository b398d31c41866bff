package anthropic_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelchain/llm/adapters/anthropic"
)

func TestAPrintedConfigCarriesNoKey(t *testing.T) {
	c := anthropic.Config{Model: "claude-x", APIKey: "sk-ant-made-up"}
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%v", &c)} {
		if strings.Contains(s, c.APIKey) || !strings.Contains(s, c.Model) {
			t.Errorf("printed as %q", s)
		}
	}
	if s := fmt.Sprintf("%+v", anthropic.New(c)); strings.Contains(s, c.APIKey) {
		t.Errorf("a Model is printed as %q", s)
	}
}
