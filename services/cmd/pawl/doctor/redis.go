package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/internal/redisconn"
)

const (
	// clockMost is how far clocks may be apart, beside the time that asking takes.
	clockMost = time.Second
	// permitTime is how long the permits of a gateway that is gone may be kept: their time to live, and a renewal of another's.
	permitTime = 5 * time.Second
)

// redisChecks are about Redis, and what gateways keep there; and about the clocks of all servers.
func redisChecks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:     "redis-version",
			Promise:  "Redis is version 7 or newer",
			Means:    "its streams do not know their lag",
			Remedy:   "upgrade Redis",
			Severity: checkup.Broken, Find: aboutRedis(unsupported),
		},
		{
			Name:     "redis-eviction",
			Promise:  "Redis evicts no keys",
			Means:    "when it is full it drops work that waits; it is added again, but late",
			Remedy:   "set maxmemory-policy noeviction",
			Severity: checkup.Broken, Find: aboutRedis(evicting),
		},
		{
			Name:     "redis-persistence",
			Promise:  "Redis may lose everything at any time: nothing depends on what it keeps",
			Means:    "its writing to disk costs time and is of no use here",
			Remedy:   "nothing; if the server is Pawl's alone, appendonly no and save \"\" spare the disk",
			Severity: checkup.Note, Find: aboutRedis(persisting),
		},
		{
			Name:     "clocks",
			Promise:  "the clocks of this machine, PostgreSQL and Redis differ by less than a second",
			Means:    "times in logs do not match, and waits in Redis are taken for longer or shorter than they are",
			Remedy:   "let the machines keep their time by NTP",
			Severity: checkup.Warning, Find: clocks,
		},
		{
			Name:     "dead-permits",
			Promise:  "permits of a gateway that is gone are given to others within seconds",
			Means:    "fewer calls are in flight than the limit allows",
			Remedy:   "--repair releases them",
			Severity: checkup.Warning, Settles: permitTime, Find: deadPermits,
			Repair: "releases the permits of gateways that have no lease",
			Mend:   releasePermits,
		},
	}
}

// aboutRedis returns a Find that says what is wrong with the server.
func aboutRedis(wrong func(redisconn.Server) string) func(context.Context, *checkup.Target) ([]checkup.Finding, error) {
	return func(ctx context.Context, t *checkup.Target) ([]checkup.Finding, error) {
		server, err := redisconn.Ask(ctx, t.Redis)
		if err != nil {
			return nil, err
		}
		if detail := wrong(server); detail != "" {
			return []checkup.Finding{{Key: "redis", Detail: detail}}, nil
		}
		return nil, nil
	}
}

func unsupported(s redisconn.Server) string {
	if s.Supported() {
		return ""
	}
	return "Redis is version " + s.Version
}

func evicting(s redisconn.Server) string {
	if !s.Evicts() {
		return ""
	}
	return "maxmemory-policy is " + s.Policy
}

func persisting(s redisconn.Server) string {
	if !s.Appends && !s.Snapshots {
		return ""
	}
	return fmt.Sprintf("Redis keeps its keys across restarts (append-only file: %t, snapshots: %t)", s.Appends, s.Snapshots)
}

// clocks compares the time that a server says with the middle of the time that asking took.
func clocks(ctx context.Context, t *checkup.Target) ([]checkup.Finding, error) {
	var found []checkup.Finding
	for _, server := range []struct {
		name string
		ask  func() (time.Time, error)
	}{
		{"PostgreSQL", func() (at time.Time, err error) {
			err = t.Pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&at)
			return at, err
		}},
		{"Redis", func() (time.Time, error) { return t.Redis.Time(ctx).Result() }},
	} {
		before := t.Clock.Now()
		at, err := server.ask()
		if err != nil {
			return nil, fmt.Errorf("ask %s for the time: %w", server.name, err)
		}
		taken := t.Clock.Now().Sub(before)
		if off := at.Sub(before.Add(taken / 2)); off.Abs() > clockMost+taken/2 {
			found = append(found, checkup.Finding{
				Key: server.name, Detail: fmt.Sprintf("the clock of %s is %v off this machine's", server.name, off.Round(time.Millisecond)),
			})
		}
	}
	return found, nil
}

// permitsOf is where the permits of a group are, and in which field those of one gateway.
type permitsOf struct{ key, field string }

// deadPermits are those of gateways without a lease. While no gateway lives nobody wants them.
func deadPermits(ctx context.Context, t *checkup.Target) ([]checkup.Finding, error) {
	living, err := livingGateways(ctx, t)
	if err != nil || len(living) == 0 {
		return nil, err
	}
	var found []checkup.Finding
	keys := t.Redis.Scan(ctx, 0, t.Prefix+":permits:{*}", 100).Iterator()
	for keys.Next(ctx) {
		fields, err := t.Redis.HGetAll(ctx, keys.Val()).Result()
		if err != nil {
			return nil, redisconn.Fault(err)
		}
		group := strings.TrimSuffix(strings.TrimPrefix(keys.Val(), t.Prefix+":permits:{"), "}")
		for field, held := range fields {
			if holder, ok := strings.CutPrefix(field, "r:"); ok && !living[holder] {
				found = append(found, checkup.Finding{
					Key: group + "/" + holder, Place: permitsOf{keys.Val(), field},
					Detail: fmt.Sprintf("gateway %s, which has no lease, has permits of group %s (%s)", holder, group, held),
				})
			}
		}
	}
	return found, redisconn.Fault(keys.Err())
}

func livingGateways(ctx context.Context, t *checkup.Target) (map[string]bool, error) {
	rows, err := t.Pool.Query(ctx, "SELECT holder::text FROM llm.replica WHERE lease_until > now()")
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	living := make(map[string]bool, len(names))
	for _, name := range names {
		living[name] = true
	}
	return living, err
}

func releasePermits(ctx context.Context, t *checkup.Target, found []checkup.Finding) (done int, err error) {
	for _, f := range found {
		if p, ok := f.Place.(permitsOf); ok {
			if err := t.Redis.HDel(ctx, p.key, p.field).Err(); err != nil {
				return done, redisconn.Fault(err)
			}
			done++
		}
	}
	return done, nil
}
