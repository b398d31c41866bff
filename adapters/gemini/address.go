package gemini

import (
	"net/url"
	"strings"

	"github.com/modelchain/llm/internal/adapter"
)

// An address is where an API is.
type address struct {
	scheme, host string
	root         string // what comes before the version, without a slash at its end
	// prefix is what comes before a model's resource: the root, the version and, on Vertex AI, the project and location.
	version, prefix string
}

func addressOf(cfg *Config, vertex bool) (address, error) {
	adapter.FillIn(&cfg.BaseURL, ownAddress(cfg, vertex))
	u, err := adapter.ParseBase(cfg.BaseURL)
	if err != nil {
		return address{}, err
	}
	if err := adapter.NoQuery(u); err != nil {
		return address{}, err
	}
	if i := strings.LastIndexByte(u.Path, '/'); i >= 0 && isVersion(u.Path[i+1:]) {
		adapter.FillIn(&cfg.APIVersion, u.Path[i+1:])
		u.Path = u.Path[:i]
	}
	if vertex {
		adapter.FillIn(&cfg.APIVersion, "v1beta1")
	}
	adapter.FillIn(&cfg.APIVersion, "v1beta")
	a := address{scheme: u.Scheme, host: u.Host, root: u.String(), version: cfg.APIVersion}
	a.prefix = a.root + "/" + a.version + "/"
	return a, nil
}

func ownAddress(cfg *Config, vertex bool) string {
	switch {
	case !vertex:
		return "https://generativelanguage.googleapis.com"
	case cfg.Project == "", cfg.Location == "global":
		return "https://aiplatform.googleapis.com"
	case cfg.Location == "us", cfg.Location == "eu":
		return "https://aiplatform." + cfg.Location + ".rep.googleapis.com"
	}
	return "https://" + cfg.Location + "-aiplatform.googleapis.com"
}

// isVersion tells the versions of Google's APIs: v1, v1beta, v1beta1, v1alpha.
func isVersion(s string) bool {
	rest, ok := strings.CutPrefix(s, "v")
	if !ok || rest == "" || rest[0] < '0' || rest[0] > '9' {
		return false
	}
	rest = strings.Trim(rest, "0123456789")
	return rest == "" || rest == "beta" || rest == "alpha"
}

// url is where a model's method is. ok is false for a name that would lead elsewhere.
func (m *Model) url(model, method string) (_ string, ok bool) {
	var b strings.Builder
	b.WriteString(m.base.prefix)
	resource := m.resource(model)
	if m.cfg.Project != "" && !strings.HasPrefix(resource, "projects/") {
		resource = "projects/" + m.cfg.Project + "/locations/" + m.cfg.Location + "/" + resource
	}
	first := true
	for segment := range strings.SplitSeq(resource, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", false
		}
		if !first {
			b.WriteByte('/')
		}
		first = false
		b.WriteString(url.PathEscape(segment))
	}
	b.WriteByte(':')
	b.WriteString(method)
	return b.String(), true
}

// resource is the path of a model beneath the version, or beneath project and location.
func (m *Model) resource(model string) string {
	kind, rest, path := strings.Cut(model, "/")
	if !m.vertex {
		if path && (kind == "models" || kind == "tunedModels") {
			return model
		}
		return "models/" + model
	}
	switch {
	case !path:
		return "publishers/google/models/" + model
	case kind == "projects" || kind == "publishers" || kind == "models" || kind == "endpoints":
		return model
	}
	return "publishers/" + kind + "/models/" + rest
}
