package policy

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/policy/contract"
)

// route is a deployment as the section routes has it.
type route struct {
	Provider     string            `yaml:"provider" check:"required,name"`
	API          string            `yaml:"api" check:"one=chat|responses"`
	Model        string            `yaml:"model" check:"required"`
	BaseURL      string            `yaml:"base_url"`
	Key          *key              `yaml:"key"`
	APIVersion   string            `yaml:"api_version"`
	KeyHeader    string            `yaml:"key_header"`
	Organization string            `yaml:"organization"`
	Project      string            `yaml:"project"`
	Settings     map[string]string `yaml:"settings"`

	Window       int      `yaml:"window" check:"min=1"`
	MaxOutput    int      `yaml:"max_output" check:"min=1"`
	Price        *price   `yaml:"price"`
	Capabilities []string `yaml:"capabilities" check:"one=text|stream|tools|images|files|audio|json|schema|reasoning|prefill"`
	Quota        string   `yaml:"quota" check:"name"`
	Credential   string   `yaml:"credential" check:"name"`

	Declares  *contract.Profile   `yaml:"declares"`
	Approvals []contract.Approved `yaml:"approvals"`
}

type price struct {
	Input       float64 `yaml:"input"`
	Output      float64 `yaml:"output"`
	CachedInput float64 `yaml:"cached_input"`
	CacheWrite  float64 `yaml:"cache_write"`
	Free        bool    `yaml:"free"`
}

// deployment is what a route says of itself, without a Caller.
func (l *listed) deployment() *llm.Deployment {
	return &llm.Deployment{
		Name: l.name, Provider: l.Provider, Model: l.Model, Window: l.Window, MaxOutput: l.MaxOutput, Price: l.Price.price(),
		Has: capabilities(l.Capabilities), Quota: l.Quota, Credential: l.Credential,
	}
}

func (p *price) price() llm.Price {
	if p == nil {
		return llm.Price{}
	}
	return llm.Price{Input: p.Input, Output: p.Output, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, Free: p.Free}
}

// key says where a key is. It never holds one.
type key struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
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
	Routes routeList `yaml:"routes" check:"required"`
}

// listedRoute is a route of a list.
type listedRoute struct {
	Name string `yaml:"name" check:"required,name"`
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
