package policy

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/tokens"
)

// An Endpoint is what a Caller of a provider that the program brings is made from. Printed, it shows no key.
type Endpoint struct {
	// Route, Provider and Model are the names of the route, of its provider and of its model.
	Route, Provider, Model string
	// BaseURL is the root of the API. "": the provider's own.
	BaseURL string
	// APIKey is the key. "": the route names none.
	APIKey string
	// Settings are what else the route says. nil: nothing.
	Settings map[string]string
	// HTTPClient is that of Options. nil: a plain one.
	HTTPClient *http.Client
}

// String says where it leads, without the key.
func (e Endpoint) String() string { return e.Route + " (" + e.Provider + "/" + e.Model + ")" }

// Format prints what String says, whatever the verb.
func (e Endpoint) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(e.String())) }

// leaf is a deployment, and from what it was made.
type leaf struct {
	sum        [sha256.Size]byte
	deployment *llm.Deployment
}

// leaf makes the deployment of a route, or keeps that of before if nothing of it has changed, its key included.
func (l *listed) leaf(o *Options, before *leaf) *leaf {
	secret, ok := l.secret(o)
	if !ok {
		return nil
	}
	route := l.route
	route.Declares, route.Approvals = nil, nil // statements change nothing of the deployment
	definition, _ := json.Marshal(route)       //nolint:errchkjson // texts and numbers
	now := &leaf{sum: sha256.Sum256(fmt.Appendf(definition, "\x00%s\x00%s", l.name, secret))}
	if before != nil && before.sum == now.sum {
		return before
	}
	caller, err := l.caller(o, secret)
	if err != nil {
		text := err.Error()
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
		l.bad("", "", "the route %s cannot be used: %s", quoted(l.name), text)
		return nil
	}
	d := l.deployment()
	d.Caller = caller
	if d.Window > 0 {
		d.Counter = tokens.For(d.Model)
	}
	now.deployment = d
	return now
}

// secret is the key. What is wrong with it is said without the name of what holds it, which might be the key itself.
func (l *listed) secret(o *Options) (secret string, ok bool) {
	switch {
	case l.Key == nil:
		return "", true
	case l.Key.Env != "":
		if secret, ok = o.LookupEnv(l.Key.Env); !ok || strings.TrimSpace(secret) == "" {
			l.bad("key.env", "set it, or name another", "the environment variable for the key of %s is not set", quoted(l.name))
			return "", false
		}
	default:
		data, err := readFile(l.keyFile(), mostKey)
		if err != nil {
			if p, ok := errors.AsType[*fs.PathError](err); ok {
				err = p.Err
			} else {
				err = errors.New("it is too large")
			}
			l.bad("key.file", "write the key into it, or name another", "the file for the key of %s cannot be read: %v", quoted(l.name),
				err)
			return "", false
		}
		secret = string(data)
	}
	secret = strings.TrimSpace(secret)
	if secret == "" || strings.ContainsAny(secret, "\r\n\x00") {
		l.bad("key", "write the key alone, in one line", "the key of %s is empty, or more than a line", quoted(l.name))
		return "", false
	}
	return secret, true
}

// caller makes what speaks to the model.
func (l *listed) caller(o *Options, secret string) (c llm.Caller, err error) {
	// A mistake for which an adapter panics, as it would be the program's, is the file's here.
	defer func() {
		if r := recover(); r != nil {
			text, ok := r.(string)
			if !ok {
				panic(r)
			}
			c, err = nil, errors.New(strings.TrimPrefix(text, "llm/adapters/openai: New: "))
		}
	}()
	if brought := o.Providers[l.Provider]; brought != nil {
		c, err = brought(Endpoint{
			Route: l.name, Provider: l.Provider, Model: l.Model, BaseURL: l.BaseURL, APIKey: secret, Settings: l.Settings,
			HTTPClient: o.HTTPClient,
		})
		if c == nil && err == nil {
			err = errors.New("its provider made no Caller")
		}
		return c, err
	}
	cfg := openai.Config{
		Provider: l.Provider, BaseURL: l.BaseURL, APIKey: secret, Model: l.Model, Organization: l.Organization, Project: l.Project,
		HTTPClient: o.HTTPClient, APIVersion: l.APIVersion, KeyHeader: l.KeyHeader,
	}
	if l.API == "responses" {
		return openai.NewResponses(cfg), nil
	}
	return openai.New(cfg), nil
}

// capabilities are those of the names that String of one has.
func capabilities(names []string) llm.Capabilities {
	var out llm.Capabilities
	for _, name := range names {
		for bit := llm.CanText; bit <= llm.CanPrefill; bit <<= 1 {
			if bit.String() == name {
				out |= bit
			}
		}
	}
	return out
}
