package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/adapters/openai"
	"github.com/modelchain/llm/middleware"
	redisstore "github.com/modelchain/llm/stores/redis"
)

// What a replica is started with.
const (
	envReplica   = "EXAMPLE_REPLICA" // its number
	envRedis     = "EXAMPLE_REDIS"
	envNamespace = "EXAMPLE_NAMESPACE"
	envProviders = "EXAMPLE_PROVIDERS"
)

// numbered says in each request which replica sends it.
type numbered string

func (n numbered) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Replica", string(n))
	return http.DefaultTransport.RoundTrip(r)
}

// gateway is the onion of each replica.
func gateway(number string, cooldowns *middleware.Cooldowns) llm.Caller {
	perDeployment := llm.New(
		cooldowns.Stage(),
		middleware.Retry(middleware.RetryConfig{Max: 1, Base: 10 * time.Millisecond}),
		middleware.AttemptTimeout(middleware.AttemptTimeoutConfig{}),
		middleware.Classify(middleware.ClassifyConfig{}),
	)
	deployment := func(name string) llm.Caller {
		api := openai.New(openai.Config{
			BaseURL: os.Getenv(envProviders) + "/" + name, APIKey: "none", HTTPClient: &http.Client{Transport: numbered(number)},
		})
		return perDeployment.Then(&llm.Deployment{Name: name, Provider: "openai", Model: name, Caller: api})
	}
	return middleware.Fallback(middleware.FallbackConfig{}, deployment("primary"), deployment("backup"))
}

// replicaMain is the process of a replica: it asks for each line that comes in, and prints what came of it and what it learns.
func replicaMain(ctx context.Context, in io.Reader, out io.Writer) error {
	var mu sync.Mutex
	say := func(what string, v any) {
		mu.Lock()
		defer mu.Unlock()
		text, err := json.Marshal(v)
		fmt.Fprintf(out, "%s %s\n", what, cmp.Or(string(text), fmt.Sprint(err)))
	}
	store, err := redisstore.Open(redisstore.Config{URL: os.Getenv(envRedis), Namespace: os.Getenv(envNamespace)})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	cooldowns := middleware.NewCooldowns(middleware.CooldownConfig{
		Store: store.Cooldowns(), // the line that makes them one
		Rest:  2 * time.Second, Cap: 2 * time.Second,
		StoreTimeout: 5 * time.Second, // so that the story is the same on a machine that is busy with other things
		OnChange: func(c middleware.CooldownState) {
			say("state", state{Name: c.Name, Rests: !c.Until.IsZero(), Until: c.Until, Class: c.Class.String(), Failed: c.Failed})
		},
	})
	defer func() { _ = cooldowns.Close() }()
	spends := middleware.NewSpends(middleware.SpendsConfig{Store: store.Spends(), Timeout: 5 * time.Second})
	defer func() { _ = spends.Close() }()
	budget := middleware.NewBudget(middleware.BudgetConfig{Attempts: 4, Shared: spends, Workflow: "report-17"})

	chat := gateway(os.Getenv(envReplica), cooldowns)
	work := budget.Stage().Wrap(chat)
	if err := cooldowns.Sync(ctx); err != nil { // what rests already is known before the first call
		return err
	}
	say("ready", "")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		asked := chat
		if lines.Text() == "work" {
			asked = work
		}
		resp, err := asked.Call(ctx, &llm.Request{Messages: []llm.Message{llm.User("What is a replica?")}})
		if err != nil {
			say("answer", "refused, "+llm.AsError(err).Class.String())
			continue
		}
		say("answer", resp.Deployment+" answered")
	}
	return lines.Err()
}

// state is what a replica knows of a deployment.
type state struct {
	Name   string
	Rests  bool
	Until  time.Time
	Class  string
	Failed int
}

// replica is the process of one, as the story sees it.
type replica struct {
	number int
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	last   state // of the primary
}

func startReplica(ctx context.Context, number int, redis, namespace, providers string) (*replica, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self)
	c.Env = append(os.Environ(), envReplica+"="+strconv.Itoa(number), envRedis+"="+redis, envNamespace+"="+namespace,
		envProviders+"="+providers)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	r := &replica{number: number, cmd: c, in: in, out: bufio.NewReader(out)}
	if _, err := r.hear("ready"); err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

func (r *replica) end() {
	_ = r.in.Close() // with which it ends
	_ = r.cmd.Wait()
}

// ask lets it make a call and returns what came of it.
func (r *replica) ask(what string) (string, error) {
	if _, err := fmt.Fprintln(r.in, what); err != nil {
		return "", err
	}
	text, err := r.hear("answer")
	if err != nil {
		return "", err
	}
	var answer string
	err = json.Unmarshal([]byte(text), &answer)
	return answer, err
}

// await waits until what it knows of the primary is so.
func (r *replica) await(ctx context.Context, so func(state) bool) (state, error) {
	for !so(r.last) && ctx.Err() == nil {
		if _, err := r.hear("state"); err != nil {
			return state{}, err
		}
	}
	return r.last, ctx.Err()
}

// hear is the rest of the next line that begins with what. It notes what the replica learns meanwhile.
func (r *replica) hear(what string) (string, error) {
	for {
		line, err := r.out.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("replica %d ended: %w", r.number, err)
		}
		kind, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind == "state" {
			var st state
			if err := json.Unmarshal([]byte(text), &st); err != nil {
				return "", err
			}
			if st.Name == "primary" {
				r.last = st
			}
		}
		if kind == what {
			return text, nil
		}
	}
}
