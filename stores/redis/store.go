package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Config sets [Open]. URL or Client must be set.
type Config struct {
	// URL is the server's address: "redis://user:password@host:6379/0", with rediss for TLS; further servers of a cluster or
	// sentinels follow as "?addr=host:6379", the name of a sentinels' master as "master_set". "": Client says it all.
	URL string
	// Client sets what URL does not say, such as the password and TLS of sentinels. The zero value is the default. DisableRetry,
	// AlwaysPipelining and DisableCache are always on; buffers of 64 KiB and one connection a server take the place of rueidis'
	// defaults.
	Client rueidis.ClientOption
	// Namespace begins every key and channel, so that services that share a server do not share their state: up to 64 of
	// A-Z a-z 0-9 . _ -. "": "llm".
	Namespace string
}

// Store is a Redis. It is safe for concurrent use.
type Store struct {
	opt       rueidis.ClientOption
	namespace string

	ctx    context.Context //nolint:containedctx // it is the life of its connections
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	client rueidis.Client
	dial   *dialing // nil: nobody is connecting
}

// dialing is an attempt to connect. done is closed when it is over.
type dialing struct {
	done chan struct{}
	err  error
}

var errClosed = errors.New("redisstore: the Store is closed")

// Open is a Store of the server that cfg names. It connects when it is first used, so a server that is down is no error.
func Open(cfg Config) (*Store, error) {
	opt := cfg.Client
	if cfg.URL != "" {
		if len(opt.InitAddress) > 0 {
			return nil, errors.New("redisstore: Config has both URL and Client.InitAddress; leave one out")
		}
		parsed, err := rueidis.ParseURL(cfg.URL)
		if err != nil { // its text has the password
			return nil, errors.New("redisstore: Config.URL is no address of the form redis://user:password@host:6379/0")
		}
		opt.InitAddress, opt.Username, opt.Password = parsed.InitAddress, parsed.Username, parsed.Password
		opt.SelectDB = parsed.SelectDB
		if parsed.Sentinel.MasterSet != "" {
			opt.Sentinel.MasterSet = parsed.Sentinel.MasterSet
		}
		if opt.TLSConfig == nil {
			opt.TLSConfig = parsed.TLSConfig
		}
	}
	if len(opt.InitAddress) == 0 {
		return nil, errors.New("redisstore: Config names no server; set URL")
	}
	namespace := cfg.Namespace
	if namespace == "" {
		namespace = "llm"
	}
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(namespace) {
		return nil, fmt.Errorf("redisstore: Config.Namespace %q has other letters than A-Z a-z 0-9 . _ - or more than 64 of them",
			namespace)
	}
	s := &Store{opt: withDefaults(opt), namespace: namespace}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

func withDefaults(o rueidis.ClientOption) rueidis.ClientOption {
	// A script that timed out may have run. What may be repeated is for who asked to know.
	o.DisableRetry = true
	// Without it a caller that gives up would cost all others their connection.
	o.AlwaysPipelining = true
	o.DisableCache = true // what changes is published
	for _, d := range []*net.Dialer{&o.Dialer, &o.Sentinel.Dialer} {
		if d.Timeout == 0 {
			d.Timeout = time.Second
		}
		if d.KeepAlive == 0 {
			d.KeepAlive = time.Second // also how often an idle connection is tested
		}
	}
	if o.Sentinel.MasterSet != "" && o.Sentinel.TopologyRefreshInterval == 0 {
		o.Sentinel.TopologyRefreshInterval = 5 * time.Second // an event that is missed would bind it to the old server
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = 3 * time.Second
	}
	if o.ReadBufferEachConn == 0 {
		o.ReadBufferEachConn = 64 << 10
	}
	if o.WriteBufferEachConn == 0 {
		o.WriteBufferEachConn = 64 << 10
	}
	if o.PipelineMultiplex == 0 {
		o.PipelineMultiplex = -1 // one connection: ten thousand replicas share a server
	}
	if o.DialCtxFn == nil && o.DialFn == nil {
		o.DialCtxFn = patiently
	}
	return o
}

// patiently connects within the dialer's time-out, also for who has less time: the next one then finds a connection.
func patiently(ctx context.Context, address string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Timeout)
	defer cancel()
	if cfg != nil {
		return (&tls.Dialer{NetDialer: d, Config: cfg}).DialContext(ctx, "tcp", address)
	}
	return d.DialContext(ctx, "tcp", address)
}

// Close ends its connections. What uses it fails from then on.
func (s *Store) Close() error {
	s.cancel()
	s.ended.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
	return nil
}

// connected is the client, once a server could be reached.
func (s *Store) connected(ctx context.Context) (rueidis.Client, error) {
	s.mu.Lock()
	if s.client != nil || s.ctx.Err() != nil {
		defer s.mu.Unlock()
		if s.client == nil {
			return nil, errClosed
		}
		return s.client, nil
	}
	d := s.dial
	if d == nil {
		d = &dialing{done: make(chan struct{})}
		s.dial = d
		s.ended.Go(func() { s.connect(d) })
	}
	s.mu.Unlock()
	select {
	case <-d.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("redisstore: connecting: %w", ctx.Err())
	}
	if d.err != nil {
		return nil, fmt.Errorf("redisstore: connecting: %w", d.err)
	}
	return s.connected(ctx)
}

func (s *Store) connect(d *dialing) {
	client, err := rueidis.NewClient(s.opt)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dial, d.err = nil, err
	if err == nil {
		s.client = client
	}
	close(d.done)
}
