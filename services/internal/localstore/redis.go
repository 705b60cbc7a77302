package localstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// redisStop is how long each way of stopping Redis may take before the next, harsher one.
const redisStop = 10 * time.Second

// RedisConfig says where and how to run Redis.
type RedisConfig struct {
	// Dir holds the append-only file and the log. It is made if missing.
	Dir string
	// Port on loopback; 0 finds a free one.
	Port int
	// Real refuses the stand-in, which tests must not take for Redis.
	Real bool
}

const howToInstallRedis = "apt-get install redis-server, dnf install redis, or brew install redis"

// Redis is a private Redis server.
type Redis struct {
	cfg   RedisConfig
	child *child               // nil when inner serves
	inner *miniredis.Miniredis // nil when child serves
}

// StartRedis runs redis-server if it is installed, and else, with a warning, a stand-in within this process that forgets
// everything when the process ends. It returns when the server answers.
func StartRedis(ctx context.Context, cfg RedisConfig, log *slog.Logger) (*Redis, error) {
	if cfg.Port == 0 {
		port, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		cfg.Port = port
	}
	r := &Redis{cfg: cfg}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if cfg.Real {
			return nil, errors.New("redis-server is not installed: " + howToInstallRedis)
		}
		log.WarnContext(ctx, "redis-server is not installed: a stand-in within this process serves, which keeps nothing on disk",
			"install", howToInstallRedis)
		r.inner = miniredis.NewMiniRedis()
		return r, r.inner.StartAddr(r.address())
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := r.Start(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Start runs the server again after Stop or Kill, on the same port.
func (r *Redis) Start(ctx context.Context) error {
	if r.inner != nil {
		return r.inner.Restart()
	}
	// Not CommandContext: the server outlives the context of its start.
	cmd := exec.Command("redis-server", //nolint:noctx // see above
		"--bind", "127.0.0.1", "--port", strconv.Itoa(r.cfg.Port), "--dir", r.cfg.Dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction")
	started, err := run(cmd, nil, filepath.Join(r.cfg.Dir, "log"))
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: r.address(), MaxRetries: -1})
	if err := started.await(ctx, func(ctx context.Context) error { return isServer(ctx, client, started) }); err != nil {
		started.stop(redisStop, syscall.SIGKILL)
		return errors.Join(err, client.Close())
	}
	r.child = started
	return client.Close()
}

// isServer reports whether it is the child that answers, and not another server which has the port already.
func isServer(ctx context.Context, client *redis.Client, c *child) error {
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", c.PID())) {
		return errors.New("another server answers on its port")
	}
	return nil
}

func (r *Redis) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.cfg.Port)) }

// URL leads to the server's first database.
func (r *Redis) URL() string { return "redis://" + r.address() + "/0" }

// Stop ends the server in order; everything is on disk. After Stop it can be started again.
func (r *Redis) Stop() { r.end(syscall.SIGTERM, syscall.SIGKILL) }

// Kill ends the server as a crash does: up to a second of writes is lost.
func (r *Redis) Kill() { r.end(syscall.SIGKILL) }

// Ended waits until the server has ended, and says how, or until ctx ends. The stand-in ends with this process only.
func (r *Redis) Ended(ctx context.Context) error {
	if r.inner != nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.child.ended(ctx)
}

// Pause makes the server hang, with its connections open, until Resume. The stand-in does not hang.
func (r *Redis) Pause() { r.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (r *Redis) Resume() { r.signal(syscall.SIGCONT) }

func (r *Redis) signal(s syscall.Signal) {
	if r.child != nil {
		r.child.signalAll(s)
	}
}

func (r *Redis) end(signals ...os.Signal) {
	if r.inner != nil {
		r.inner.Close()
		return
	}
	r.child.stop(redisStop, signals...)
}
