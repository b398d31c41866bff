package policy

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/modelchain/llm"
)

// route is a deployment as the section routes has it.
type route struct {
	Provider     string            `yaml:"provider" check:"required,name" doc:"whose API it is: openai, azure and the others of package openai, or one that the program brings"`
	API          string            `yaml:"api" check:"one=chat|responses" doc:"which of OpenAI's two APIs is spoken; chat if absent"`
	Model        string            `yaml:"model" check:"required" doc:"the model, as its provider names it"`
	BaseURL      string            `yaml:"base_url" doc:"the root of the API, what comes before /chat/completions; the provider's own if absent"`
	Key          *key              `yaml:"key" doc:"where the key is: {env: NAME} or {file: PATH}; no key is sent if absent"`
	APIVersion   string            `yaml:"api_version" doc:"Azure's dated API, such as 2024-10-21"`
	KeyHeader    string            `yaml:"key_header" doc:"the header that carries the key; the provider's own if absent"`
	Organization string            `yaml:"organization" doc:"OpenAI's organization"`
	Project      string            `yaml:"project" doc:"OpenAI's project"`
	Settings     map[string]string `yaml:"settings" doc:"what a provider that the program brings wants to know beside, such as region"`

	Window       int      `yaml:"window" check:"min=1" doc:"what fits into the model, input and output together, in tokens; unknown if absent"`
	MaxOutput    int      `yaml:"max_output" check:"min=1" doc:"the longest answer, in tokens; unknown if absent"`
	Price        *price   `yaml:"price" doc:"what it costs; unknown if absent"`
	Capabilities []string `yaml:"capabilities" check:"one=text|stream|tools|images|files|audio|json|schema|reasoning|prefill" doc:"what the model can do; unknown and not checked if absent"`
	Quota        string   `yaml:"quota" check:"name" doc:"a name that routes with the same rate limits share"`
	Credential   string   `yaml:"credential" check:"name" doc:"a name that routes with the same account share"`
}

type price struct {
	Input       float64 `yaml:"input" doc:"US dollars for a million tokens of input"`
	Output      float64 `yaml:"output" doc:"US dollars for a million tokens of output"`
	CachedInput float64 `yaml:"cached_input" doc:"US dollars for a million tokens of input from the provider's cache; as input if absent"`
	CacheWrite  float64 `yaml:"cache_write" doc:"US dollars for a million tokens of input written to it; as input if absent"`
	Free        bool    `yaml:"free" doc:"whether it costs nothing"`
}

func (p *price) price() llm.Price {
	if p == nil {
		return llm.Price{}
	}
	return llm.Price{Input: p.Input, Output: p.Output, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, Free: p.Free}
}

// key says where a key is. It never holds one.
type key struct {
	Env  string `yaml:"env" doc:"the name of an environment variable"`
	File string `yaml:"file" doc:"the path of a file, from the directory of this one"`
}

const noLiteralKey = "name where the key is: {env: NAME} or {file: PATH}"

// read never shows a value: a key may have been written in its place.
func (k *key) read(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode {
		d.bad(n, noLiteralKey, "key is a text; keys are never written into a policy")
		return
	}
	for _, p := range d.pairs(n, path, []string{"env"}) {
		value, ok := d.open(p.value, path)
		switch {
		case !ok:
		case p.key.Value != "env" && p.key.Value != "file":
			d.bad(p.key, noLiteralKey, "key takes env or file only")
		case value.Kind != yaml.ScalarNode || value.Tag != "!!str" || strings.TrimSpace(value.Value) == "":
			d.bad(value, noLiteralKey, "%s of a key is no text", p.key.Value)
		case p.key.Value == "env":
			k.Env, d.at[under(path, "env")] = value.Value, value
		default:
			k.File, d.at[under(path, "file")] = value.Value, value
		}
	}
	switch {
	case k.Env != "" && k.File != "":
		d.bad(n, "keep one of them", "key has both env and file")
	case k.Env == "" && k.File == "" && len(n.Content) == 0:
		d.bad(n, noLiteralKey, "key names nothing")
	}
}

// common is the document that cards share.
type common struct {
	Routes routeList `yaml:"routes" check:"required" doc:"the deployments, by name"`
}

// listedRoute is a route of a list.
type listedRoute struct {
	Name string `yaml:"name" check:"required,name" doc:"the name of the route"`
	route
}

// routeList are the routes in the order in which they are listed: a mapping by name, or a list with a name each.
type routeList []namedRoute

type namedRoute struct {
	name string
	path string
	route
}

func (l *routeList) read(d *decoder, n *yaml.Node, path string) {
	switch n.Kind {
	case yaml.SequenceNode:
		for i, c := range n.Content {
			var r listedRoute
			at := fmt.Sprintf("%s.%d", path, i)
			d.value(c, at, reflect.ValueOf(&r).Elem(), rule{})
			if r.Name != "" {
				*l = append(*l, namedRoute{r.Name, at, r.route})
			}
		}
	case yaml.MappingNode:
		for i, p := range d.pairs(n, path, nil) {
			var r route
			at := fmt.Sprintf("%s.%d", path, i)
			d.value(p.value, at, reflect.ValueOf(&r).Elem(), rule{})
			d.at[at] = p.key
			if !isName(p.key.Value) {
				d.bad(p.key, nameMend, "the name of a route is %s, which is no name", quoted(p.key.Value))
				continue
			}
			*l = append(*l, namedRoute{p.key.Value, at, r})
		}
	default:
		d.bad(n, "write a mapping of names to routes, or a list of routes with a name each", "routes is %s", kindOf(n))
		return
	}
	if len(n.Content) == 0 {
		d.bad(n, "add one", "routes is empty")
	}
}
