// Package doctor checks, on a live system, every promise that a query can check. It reads the stores and asks no service: what
// it says does not depend on whether they can still speak. The checks of a schema are its owner's (orchestrator/inspect,
// llmgateway/inspect); here are those that look across schemas, at the streams, and at the servers.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"pawl.internal/services/cmd/pawl/client"
	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/internal/suggest"
	llm "pawl.internal/services/llmgateway/inspect"
	core "pawl.internal/services/orchestrator/inspect"
)

const (
	// ExitFound says that a promise is broken. That something could not be checked is client.ExitError.
	ExitFound = 8
	// conns is how many connections the doctor opens: it is a guest, also where they are short.
	conns = 2
	// everything as the name of a check stands for all of them.
	everything = "all"
	// application is the doctor's name in pg_stat_activity.
	application = "pawl-doctor"
)

// Cmd is the command.
type Cmd struct {
	Database struct {
		URL config.Secret `help:"PostgreSQL connection URL; default: that of the system that 'pawl dev' runs on the data folder." placeholder:"postgres://…"`
	} `embed:"" prefix:"database-"`
	Redis   redisconn.Config `embed:"" prefix:"redis-"`
	DataDir string           `help:"Data folder of 'pawl dev'." default:".pawl" type:"path"`

	Only     []string      `env:"-" help:"Carry out these checks only." placeholder:"CHECK"`
	Repair   []string      `env:"-" help:"Repair what these checks find, where that is safe; 'all' for every one." placeholder:"CHECK"`
	Patience time.Duration `help:"How much longer than promised the system may take to put something right by itself." default:"3s"`
	Recent   int           `help:"How many of the newest runs and rows are looked at; unfinished runs all are." default:"20000"`
	Strict   bool          `help:"Warnings count too."`
	JSON     bool          `help:"Print JSON." name:"json"`
}

// Run checks, repairs if asked, and says what was found.
func (c *Cmd) Run(ctx context.Context, s client.Streams) error {
	checks, err := Checks()
	if err != nil {
		return err
	}
	checks, err = c.choose(checks)
	if err != nil {
		return client.WithExitCode(err, client.ExitUsage)
	}
	target, done, err := c.open(ctx)
	if err != nil {
		return fmt.Errorf("nothing could be checked: %w", err)
	}
	defer done()
	results := c.examine(ctx, target, checks)
	if err := write(s.Out, results, c.JSON); err != nil {
		return err
	}
	return c.verdict(results)
}

func (c *Cmd) examine(ctx context.Context, t *checkup.Target, checks []*checkup.Check) []*checkup.Result {
	runs, err := core.Runs(ctx, t)
	if err != nil { // without its schema, which a check says
		runs = nil
	}
	t.Runs = runs
	results := checkup.Examine(ctx, t, checks, c.Patience)
	if err != nil {
		results = append(results, &checkup.Result{Check: &checkup.Check{Name: "runs", Promise: "the runs can be listed"}, Err: err})
	}
	checkup.Mend(ctx, t, results, func(check *checkup.Check) bool {
		return slices.Contains(c.Repair, everything) || slices.Contains(c.Repair, check.Name)
	})
	return results
}

// Checks lists all checks in the order in which they are shown.
func Checks() ([]*checkup.Check, error) {
	ofRuns, err := core.Checks()
	if err != nil {
		return nil, err
	}
	return slices.Concat(serverChecks(), ofRuns, llm.Checks(), acrossChecks(), streamChecks()), nil
}

// choose leaves the checks that were asked for, and refuses names that no check has.
func (c *Cmd) choose(all []*checkup.Check) ([]*checkup.Check, error) {
	names := make([]string, len(all))
	for i, check := range all {
		names[i] = check.Name
	}
	for _, name := range slices.Concat(c.Only, c.Repair) {
		if name != everything && !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no check %q%s; the checks are %s",
				name, suggest.DidYouMean(name, slices.Values(names)), strings.Join(names, ", "))
		}
	}
	if len(c.Only) == 0 || slices.Contains(c.Only, everything) {
		return all, nil
	}
	return slices.DeleteFunc(all, func(check *checkup.Check) bool { return !slices.Contains(c.Only, check.Name) }), nil
}

// open connects to the stores.
func (c *Cmd) open(ctx context.Context) (*checkup.Target, func(), error) {
	if err := c.fromRecord(); err != nil {
		return nil, nil, err
	}
	pool, err := pg.Open(ctx, pg.Config{
		URL: c.Database.URL, MaxConns: conns, StatementTimeout: time.Minute, ConnectTimeout: 5 * time.Second, Settings: pg.ByKey(),
	}, application)
	if err != nil {
		return nil, nil, err
	}
	client, err := redisconn.Connect(c.Redis)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	done := func() {
		pool.Close()
		_ = client.Close() // nothing of ours is under way on it
	}
	return &checkup.Target{Pool: pool, Redis: client, Prefix: c.Redis.Prefix, Clock: clock.System(), Recent: c.Recent}, done, nil
}

// fromRecord takes what is not given from the system that runs on the data folder.
func (c *Cmd) fromRecord() error {
	if !c.Database.URL.IsZero() && !c.Redis.URL.IsZero() {
		return nil
	}
	record, err := dev.ReadRecord(c.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no stores are named, and no system runs on %s: give --database-url and --redis-url "+
			"(PAWL_DATABASE_URL, PAWL_REDIS_URL), or the --data-dir of a running 'pawl dev'", c.DataDir)
	}
	if err != nil {
		return err
	}
	if c.Database.URL.IsZero() {
		c.Database.URL = config.NewSecret(record.DatabaseURL)
	}
	if c.Redis.URL.IsZero() {
		c.Redis.URL, c.Redis.Prefix = config.NewSecret(record.RedisURL), record.RedisPrefix
	}
	return nil
}

// verdict is the error that gives the exit code.
func (c *Cmd) verdict(results []*checkup.Result) error {
	var broken, unchecked []string
	for _, r := range results {
		counts := r.Severity == checkup.Broken || c.Strict && r.Severity == checkup.Warning
		if counts && len(r.Findings) > 0 {
			broken = append(broken, r.Name)
		}
		if r.Err != nil {
			unchecked = append(unchecked, r.Name)
		}
	}
	switch {
	case len(broken) > 0:
		return client.WithExitCode(fmt.Errorf("broken: %s", strings.Join(broken, ", ")), ExitFound)
	case len(unchecked) > 0:
		return fmt.Errorf("could not be checked: %s", strings.Join(unchecked, ", "))
	default:
		return nil
	}
}
