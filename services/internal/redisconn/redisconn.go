// Package redisconn connects to Redis and refuses servers on which the system cannot keep its promises.
package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/fault"
)

const (
	// leastVersion is the first major version whose streams know their lag, which autoscaling needs.
	leastVersion = 7

	dialTimeout = 2 * time.Second
	// ioTimeout bounds every answer; a blocking read has its own time on top of it.
	ioTimeout = 2 * time.Second

	sentinelScheme = "redis+sentinel://"
	clusterScheme  = "redis+cluster://"
)

// Config says how to reach Redis. Embed it with the prefix "redis-".
type Config struct {
	URL           config.Secret `help:"Redis URL; redis+sentinel:// and redis+cluster:// with several ?addr=host:port." placeholder:"redis://…"`
	Prefix        string        `help:"First part of every key." default:"pawl"`
	AllowEviction bool          `help:"Start although the server may evict keys when it is full."`
}

// Open returns a client of a server, a Sentinel group or a cluster, after checking the server's version and that it does
// not evict keys. Calls give up when their context ends, and find the server again soon after it was away.
func Open(ctx context.Context, cfg Config) (redis.UniversalClient, error) {
	client, err := Connect(cfg)
	if err != nil {
		return nil, err
	}
	if err := check(ctx, client, cfg.AllowEviction); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// Connect returns a client of whatever server that is, for those who look at it; nothing is asked of it yet.
func Connect(cfg Config) (redis.UniversalClient, error) {
	// go-redis has one logger for the whole program, which writes to stderr. What it would say comes back from the calls.
	logging.Disable()
	return connect(cfg.URL.Reveal())
}

func connect(url string) (redis.UniversalClient, error) {
	switch {
	case url == "":
		return nil, errors.New("no Redis URL is set: give --redis-url or PAWL_REDIS_URL")
	case strings.HasPrefix(url, sentinelScheme):
		o, err := redis.ParseFailoverURL("redis://" + strings.TrimPrefix(url, sentinelScheme))
		if err != nil {
			return nil, errBadURL()
		}
		tune(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.ContextTimeoutEnabled, &o.DialerRetries)
		return redis.NewFailoverClient(o), nil
	case strings.HasPrefix(url, clusterScheme):
		o, err := redis.ParseClusterURL("redis://" + strings.TrimPrefix(url, clusterScheme))
		if err != nil {
			return nil, errBadURL()
		}
		tune(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.ContextTimeoutEnabled, &o.DialerRetries)
		return redis.NewClusterClient(o), nil
	default:
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, errBadURL()
		}
		tune(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.ContextTimeoutEnabled, &o.DialerRetries)
		return redis.NewClient(o), nil
	}
}

// tune sets what the options of all kinds of clients have in common: calls that fail soon, and end with their context.
func tune(dial, read, write *time.Duration, obeyContext *bool, dials *int) {
	*dial, *read, *write, *obeyContext, *dials = dialTimeout, ioTimeout, ioTimeout, true, 1
}

// errBadURL does not repeat the URL: URLs hold passwords.
func errBadURL() error {
	return errors.New("the Redis URL cannot be read: write redis://user:password@host:port/0, " +
		"redis+sentinel://host:port?master_name=…&addr=host:port or redis+cluster://host:port?addr=host:port")
}

// Server is what a server says of itself.
type Server struct {
	Version, Policy string
	// Appends and Snapshots say whether it keeps its keys across restarts, and by which means.
	Appends, Snapshots bool
}

// Supported reports whether the system can keep its promises on a server of this version.
func (s Server) Supported() bool { return checkVersion(s.Version) == nil }

// Evicts reports whether the server may drop keys when it is full. Servers that do not tell count as those that do not.
func (s Server) Evicts() bool { return s.Policy != "" && s.Policy != "noeviction" }

// Ask returns what the server says of itself.
func Ask(ctx context.Context, client redis.UniversalClient) (Server, error) {
	s, err := ask(ctx, client)
	if err != nil {
		return Server{}, err
	}
	// Servers that do not let it be asked are taken to save none.
	save := client.ConfigGet(ctx, "save").Val()["save"]
	s.Snapshots = strings.TrimSpace(save) != ""
	return s, nil
}

// ask is Ask with one question, which leaves Snapshots open.
func ask(ctx context.Context, client redis.UniversalClient) (Server, error) {
	info, err := client.Info(ctx).Result()
	if err != nil {
		return Server{}, fmt.Errorf("ask Redis for its version: %w", Fault(err))
	}
	return Server{
		Version: field(info, "redis_version"), Policy: field(info, "maxmemory_policy"), Appends: field(info, "aof_enabled") == "1",
	}, nil
}

// check refuses servers that are too old or may evict keys.
func check(ctx context.Context, client redis.UniversalClient, allowEviction bool) error {
	server, err := ask(ctx, client)
	if err != nil {
		return err
	}
	if err := checkVersion(server.Version); err != nil {
		return err
	}
	if server.Evicts() && !allowEviction {
		return fmt.Errorf("redis may evict keys (maxmemory-policy %s), and with them work that waits: "+
			"set maxmemory-policy noeviction, or start with --redis-allow-eviction", server.Policy)
	}
	return nil
}

func checkVersion(version string) error {
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < leastVersion {
		return fmt.Errorf("redis is version %s: %d or newer is needed", version, leastVersion)
	}
	return nil
}

// field finds "name:value" in what INFO returns.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Fault translates an error of Redis into a fault: whatever keeps it from answering is UNAVAILABLE. redis.Nil and the
// server's complaints about a command are returned as they are.
func Fault(err error) error {
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Of(err)
	}
	if _, said := errors.AsType[redis.Error](err); said && !isPassing(err) {
		return err
	}
	return fault.Unavailable(err, "redis is not available")
}

// isPassing reports whether the server's complaint says that it cannot serve for the moment.
func isPassing(err error) bool {
	for _, prefix := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ", "OOM", "MISCONF"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}
