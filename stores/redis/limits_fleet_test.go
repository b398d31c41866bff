package redisstore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelchain/llm"
	"github.com/modelchain/llm/internal/redistest"
	"github.com/modelchain/llm/middleware"
)

// childLimits makes a child one that shares the limiter of which it is the JSON.
const childLimits = "REDISSTORE_LIMITS"

type fleetLimits struct {
	Limits         middleware.Limits
	Lease, Timeout time.Duration
	Goroutines     int // that call all the time after "go"
}

func (f fleetLimits) set(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childLimits, string(text))
}

// limitChild is one process of a fleet that shares a limit: it calls the provider each time that a line comes in, and says how
// that ended. With "go" it calls all the time, until "stop".
func limitChild(setting string) error {
	var cfg fleetLimits
	if err := json.Unmarshal([]byte(setting), &cfg); err != nil {
		return err
	}
	store, err := Open(Config{URL: os.Getenv(childURL), Namespace: os.Getenv(childSpace)})
	if err != nil {
		return err
	}
	defer store.Close()
	l := middleware.NewLimiter(middleware.LimiterConfig{
		Limits: cfg.Limits, Store: store.Limits(), Name: "fleet", SlotLease: cfg.Lease, StoreTimeout: cfg.Timeout, Fixed: true,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	defer l.Close()
	address := os.Getenv(childProvider)
	chat := l.Stage("p").Wrap(llm.CallerFunc(func(ctx context.Context, _ *llm.Request) (*llm.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		return &llm.Response{Parts: []llm.Part{llm.Text("ok")}}, answer.Body.Close()
	}))
	call := func(ctx context.Context) error {
		_, err := chat.Call(ctx, &llm.Request{Messages: []llm.Message{llm.User("hi")}})
		return err
	}
	fmt.Println("ready")
	stop := func() (calls, failed int, worst time.Duration) { return 0, 0, 0 }
	defer func() { stop() }()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "go":
			stop = callAllTheTime(cfg.Goroutines, call)
		case "stop":
			calls, failed, worst := stop()
			fmt.Println("stopped", calls, failed, worst.Microseconds())
		case "call":
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			switch err := call(ctx); {
			case err == nil:
				fmt.Println("ok")
			case errors.Is(err, llm.RateLimited):
				fmt.Println("limited")
			default:
				fmt.Println("failed")
			}
			cancel()
		}
	}
	return nil
}

// callAllTheTime has n goroutines call until stop, which says how often they did.
func callAllTheTime(n int, call func(context.Context) error) (stop func() (calls, failed int, worst time.Duration)) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var calls, failed int
	var worst time.Duration
	ctx, cancel := context.WithCancel(context.Background())
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				err := call(ctx)
				took := time.Since(start)
				mu.Lock()
				calls++
				if err != nil && ctx.Err() == nil {
					failed++
					fmt.Fprintln(os.Stderr, err)
				}
				worst = max(worst, took)
				mu.Unlock()
			}
		})
	}
	return func() (int, int, time.Duration) {
		cancel()
		all.Wait()
		return calls, failed, worst
	}
}

// limitLog is what the server knows of the limit "fleet/p", by its own clock.
type limitLog struct {
	at             time.Time
	used, slots    int // by all replicas
	lacks          float64
	waiting, known int // replicas
}

func readLimit(t *testing.T, s *Store) (l limitLog) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := s.connected(ctx)
	if err != nil {
		t.Fatal(err)
	}
	key := s.namespace + ":v1:limit:{fleet/p}"
	const script = `local t, h = redis.call('TIME'), redis.call('HGETALL', KEYS[1])
		table.insert(h, t[1]) table.insert(h, t[2]) table.insert(h, tostring(redis.call('ZCARD', KEYS[2])))
		return h`
	a, err := client.Do(ctx, client.B().Eval().Script(script).Numkeys(2).Key(key, key+":line").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	number := func(text string) float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := len(a) - 3
	l.at = time.UnixMicro(int64(number(a[n]))*1e6 + int64(number(a[n+1])))
	l.waiting = int(number(a[n+2]))
	for i := 0; i < n; i += 2 {
		switch f := a[i]; {
		case f == "l1":
			l.lacks = number(a[i+1])
		case f == "n":
			l.slots = int(number(a[i+1]))
		case strings.HasPrefix(f, "r:"):
			l.used += int(number(strings.Fields(a[i+1])[1]))
			l.known++
		}
	}
	return l
}

// stopAll ends what "go" began, and returns how many calls there were.
func stopAll(t *testing.T, what string, fleet []*process) (sum int) {
	t.Helper()
	for i, f := range fleet {
		var calls, failed, worst int
		said := f.ask(t, "stop")
		if _, err := fmt.Sscanf(said, "stopped %d %d %d", &calls, &failed, &worst); err != nil {
			t.Fatalf("process %d says %q", i, said)
		}
		if calls == 0 || failed > 0 {
			t.Errorf("%s, process %d: %d of %d calls failed", what, i, failed, calls)
		}
		t.Logf("%s, process %d: %d calls, the slowest took %v", what, i, calls, time.Duration(worst)*time.Microsecond)
		sum += calls
	}
	return sum
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// TestEightProcessesKeepOneLimit has eight processes call as often as they may. By the server's clock and its own books no more
// is granted than the limit and 2 %. That it is no less either is for a machine that is not busy: with LLM_TEST_FLEET_MINUTE set
// the limit is 600 a minute, for a minute, and both are checked.
func TestEightProcessesKeepOneLimit(t *testing.T) {
	perMinute, window := 6000, 5*time.Second
	whole := os.Getenv("LLM_TEST_FLEET_MINUTE") != ""
	if whole {
		perMinute, window = 600, time.Minute
	}
	fleetLimits{Limits: middleware.Limits{Requests: perMinute}, Timeout: 10 * time.Second, Goroutines: 4}.set(t)
	url, namespace := redistest.Start(t)
	s := open(t, Config{URL: url, Namespace: namespace})
	p := newProvider(t)
	fleet := startFleet(t, 8, url, namespace, p)
	for _, f := range fleet {
		f.say(t, "go")
	}
	begin := readLimit(t, s)
	for int(begin.lacks) < perMinute/60 { // until what may go at once after a pause has gone
		pause(10 * time.Millisecond)
		begin = readLimit(t, s)
	}
	pause(window)
	end := readLimit(t, s)
	stopAll(t, "limit", fleet)
	granted, took := float64(end.used-begin.used), end.at.Sub(begin.at)
	may := float64(perMinute) * took.Minutes()
	t.Logf("%.0f granted in %v of the server's clock, of %.1f: %+.2f %%; %d reached the provider", granted, took, may,
		100*(granted/may-1), p.calls.Load())
	if granted > may*1.02 {
		t.Errorf("%.0f granted, of %.1f", granted, may)
	}
	if whole && granted < may*0.98 {
		t.Errorf("only %.0f granted, of %.1f", granted, may)
	}
	if end.known != 8 {
		t.Errorf("the server knows %d replicas", end.known)
	}
	// Once all is told, what reached the provider is what the server granted, but for calls that were ended on their way.
	for deadline := time.Now().Add(time.Minute); ; pause(10 * time.Millisecond) {
		told, calls := int64(readLimit(t, s).used), p.calls.Load()
		if told >= calls && told <= calls+8*4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls reached the provider, and the server granted %d", calls, told)
		}
	}
}

func TestAKilledProcessLeaksNoSlot(t *testing.T) {
	const slots = 4
	fleetLimits{Limits: middleware.Limits{InFlight: slots}, Lease: 2 * time.Second, Timeout: 10 * time.Second, Goroutines: 6}.set(t)
	url, namespace := redistest.Start(t)
	s := open(t, Config{URL: url, Namespace: namespace})
	p := newProvider(t)
	fleet := startFleet(t, 5, url, namespace, p)
	kill := func(f *process) {
		t.Helper()
		if err := f.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	// In the midst of calls that come and go.
	for _, f := range fleet[:2] {
		before := p.calls.Load()
		f.say(t, "go")
		for p.calls.Load() < before+50 {
			pause(time.Millisecond)
		}
		kill(f)
	}
	// With all slots.
	for p.inside.Load() > 0 {
		pause(time.Millisecond)
	}
	p.down.Store(true)
	p.hang.Store(true)
	fleet[2].say(t, "go")
	for range slots {
		<-p.entered
	}
	kill(fleet[2])
	// While it waits for one, as another has them all by now.
	fleet[3].say(t, "go")
	for range slots {
		<-p.entered
	}
	fleet[4].say(t, "go")
	for readLimit(t, s).waiting < 2 { // the one that has them wants more
		pause(time.Millisecond)
	}
	if l := readLimit(t, s); l.slots != slots {
		t.Errorf("the server knows %d slots, want %d", l.slots, slots)
	}
	kill(fleet[4])
	fleet[3].say(t, "stop")
	fleet[3].hear(t)
	more := startFleet(t, 1, url, namespace, p)
	more[0].say(t, "go")
	for p.inside.Load() < slots || readLimit(t, s).slots < slots { // it gets all that the others had
		pause(time.Millisecond)
	}
	if l := readLimit(t, s); l.slots != slots {
		t.Errorf("the server knows %d slots, want %d", l.slots, slots)
	}
	more[0].say(t, "stop")
	more[0].hear(t)
	for readLimit(t, s).slots > 0 {
		pause(time.Millisecond)
	}
	if most := p.most.Load(); most > slots {
		t.Errorf("%d calls at once, of %d", most, slots)
	}
}

func TestAStopAndAFlushOfRedisCostNoLimitedCall(t *testing.T) {
	const perSecond = 100
	fleetLimits{Limits: middleware.Limits{Requests: 60 * perSecond, InFlight: 64}, Goroutines: 4}.set(t)
	server := redistest.Own(t)
	p := newProvider(t)
	fleet := startFleet(t, 4, server.URL, "llm", p)
	stop := 2 * time.Second
	if d, err := time.ParseDuration(os.Getenv("LLM_TEST_REDIS_STOP")); err == nil {
		stop = d
	}
	run := func(what string, meanwhile func()) {
		t.Helper()
		before, start := p.calls.Load(), time.Now()
		for _, f := range fleet {
			f.say(t, "go")
		}
		meanwhile()
		stopAll(t, what, fleet)
		// A burst of the server's, one of all shares together, and one more of either when it changes.
		if n, most := p.calls.Load()-before, perSecond*(time.Since(start).Seconds()+4); float64(n) > most {
			t.Errorf("%s: %d calls in %v, want at most %.0f", what, n, time.Since(start), most)
		}
	}
	run("flush", func() {
		pause(500 * time.Millisecond)
		do(t, open(t, Config{URL: server.URL}), "FLUSHALL")
		pause(500 * time.Millisecond)
	})
	run("stop", func() { server.Pause(t); pause(stop); server.Resume(t); pause(500 * time.Millisecond) })
	server.Pause(t)
	for i, f := range fleet { // nobody is made to wait who has no time
		if got := f.ask(t, "call"); got == "failed" {
			t.Errorf("process %d, alone: %s", i, got)
		}
	}
	server.Resume(t)
	server.Kill(t)
	server.Restart(t)
	run("restart", func() { pause(500 * time.Millisecond) })
	s := open(t, Config{URL: server.URL})
	for readLimit(t, s).known < len(fleet) {
		pause(10 * time.Millisecond)
	}
}
