package localstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresStop is how long each way of stopping PostgreSQL may take before the next, harsher one.
const postgresStop = 20 * time.Second

// PostgresConfig says where and how to run PostgreSQL.
type PostgresConfig struct {
	// Dir holds the cluster, its password and its log. It is made if missing.
	Dir string
	// Port on loopback; 0 finds a free one.
	Port int
	// Unsafe leaves out fsync: quicker, and safe against everything but a crash of the machine. For tests.
	Unsafe bool
	// Settings are more of the server's parameters, as name=value. They win over ours.
	Settings []string
}

// Postgres is a private PostgreSQL server.
type Postgres struct {
	cfg      PostgresConfig
	binaries string // folder of postgres and initdb
	as       *identity
	password string
	child    *child
}

// StartPostgres runs a server on the cluster in cfg.Dir, which the first start makes, and returns when it answers.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Postgres, error) {
	p := &Postgres{cfg: cfg}
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// prepare finds what is needed and makes the cluster if there is none.
func (p *Postgres) prepare(ctx context.Context) (err error) {
	if p.cfg.Dir, err = filepath.Abs(p.cfg.Dir); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if p.as, err = databaseUser(); err != nil {
		return err
	}
	if p.cfg.Port == 0 {
		if p.cfg.Port, err = freePort(ctx); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(p.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := handOver(p.cfg.Dir, p.as); err != nil {
		return err
	}
	if p.binaries, err = findPostgres(clusterVersion(p.data())); err != nil {
		return err
	}
	return p.initialize(ctx)
}

func (p *Postgres) data() string         { return filepath.Join(p.cfg.Dir, "data") }
func (p *Postgres) passwordFile() string { return filepath.Join(p.cfg.Dir, "password") }

// initialize makes the cluster once. A half-made one of an interrupted start is thrown away.
func (p *Postgres) initialize(ctx context.Context) error {
	if clusterVersion(p.data()) != "" {
		password, err := os.ReadFile(p.passwordFile())
		p.password = string(password)
		return err
	}
	p.password = rand.Text()
	if err := p.writePassword(); err != nil {
		return fmt.Errorf("database password: %w", err)
	}
	unfinished := p.data() + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	args := []string{
		"-D", unfinished, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", p.passwordFile(),
		"-E", "UTF8", "--locale=C.UTF-8",
	}
	if p.cfg.Unsafe {
		args = append(args, "--no-sync")
	}
	initdb := exec.CommandContext(ctx, filepath.Join(p.binaries, "initdb"), args...)
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	initdb.Dir = p.cfg.Dir
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("make database cluster: %w\n%s", err, output)
	}
	return os.Rename(unfinished, p.data())
}

func (p *Postgres) writePassword() error {
	if err := os.WriteFile(p.passwordFile(), []byte(p.password), 0o600); err != nil {
		return err
	}
	return handOver(p.passwordFile(), p.as)
}

// Start runs the server again after Stop or Kill, on the same port.
func (p *Postgres) Start(ctx context.Context) error {
	if err := p.clearStalePID(); err != nil {
		return err
	}
	args := []string{"-D", p.data()}
	for _, setting := range p.settings() {
		args = append(args, "-c", setting)
	}
	// Not CommandContext: the server outlives the context of its start.
	cmd := exec.Command(filepath.Join(p.binaries, "postgres"), args...) //nolint:noctx // see above
	cmd.Dir = p.cfg.Dir
	started, err := run(cmd, p.as, filepath.Join(p.cfg.Dir, "log"))
	if err != nil {
		return err
	}
	if err := started.await(ctx, p.ping); err != nil {
		started.stop(postgresStop, syscall.SIGQUIT, syscall.SIGKILL)
		return err
	}
	p.child = started
	return nil
}

func (p *Postgres) settings() []string {
	settings := []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(p.cfg.Port), "unix_socket_directories=",
		"max_connections=300", "shared_buffers=256MB", "jit=off", "random_page_cost=1.1",
		"wal_level=minimal", "max_wal_senders=0", "max_wal_size=2GB", "checkpoint_timeout=15min",
		"log_min_messages=warning", "log_checkpoints=off", "log_line_prefix=%m [%p] ", "log_lock_waits=on",
	}
	if p.cfg.Unsafe {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	return append(settings, p.cfg.Settings...)
}

func (p *Postgres) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// clearStalePID removes the lock file that a killed server left behind when its process id belongs to another program by
// now, which PostgreSQL itself takes for a running server. A server that does run on the cluster is an error. The lock of a
// process that is gone stays: by it PostgreSQL finds out whether sessions of the killed server still write.
func (p *Postgres) clearStalePID() error {
	file := filepath.Join(p.data(), "postmaster.pid")
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("database lock: %w", err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err == nil && isPostgres(pid) {
		return fmt.Errorf("a database server (process %d) already runs on %s: stop it, or choose another data folder",
			pid, p.cfg.Dir)
	}
	if err == nil && !exists(pid) {
		return nil
	}
	return os.Remove(file)
}

// URL leads to the server as its superuser, to the database "postgres".
func (p *Postgres) URL() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", p.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(p.cfg.Port)), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Stop ends the server in order: sessions are cut, everything is written. After Stop it can be started again.
func (p *Postgres) Stop() {
	p.child.stop(postgresStop, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL)
}

// Kill ends the server as a crash does: nothing is written any more, so that what was not committed durably is lost.
func (p *Postgres) Kill() {
	p.Resume()
	p.child.stop(postgresStop, syscall.SIGQUIT, syscall.SIGKILL)
}

// Ended waits until the server has ended, and says how, or until ctx ends.
func (p *Postgres) Ended(ctx context.Context) error { return p.child.ended(ctx) }

// Pause makes the server hang, sessions and all, with its connections open, until Resume.
func (p *Postgres) Pause() { p.child.signalAll(syscall.SIGSTOP) }

// Resume ends Pause.
func (p *Postgres) Resume() { p.child.signalAll(syscall.SIGCONT) }
