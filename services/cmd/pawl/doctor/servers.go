package doctor

import (
	"context"
	"fmt"
	"time"

	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/internal/pg"
)

const (
	// leastPostgres is the first version that the migrations and queries are tested with.
	leastPostgres = 15
	// restartTime is how long a service may take to be there again.
	restartTime = 5 * time.Second
	// Pools of a service, as the defaults of their flags say.
	mainConns, controlConns = 10, 3
	// oldAfter is from when on a transaction is old.
	oldAfter = 30 * time.Second
	// connsLeft is how many connections there should be left.
	connsLeft = 5
)

// serverChecks are about the stores and the services themselves.
func serverChecks() []*checkup.Check { return append(postgresChecks(), redisChecks()...) }

// postgresChecks are about PostgreSQL, and the services that show in it that they live.
func postgresChecks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:     "postgres-version",
			Promise:  "PostgreSQL is version 15 or newer",
			Means:    "migrations and queries are not tested with it",
			Remedy:   "upgrade PostgreSQL",
			Severity: checkup.Broken, Find: checkup.Query(oldPostgres, leastPostgres),
		},
		{
			Name:     "schema-version",
			Promise:  "the database's schemas are those of this build, or newer",
			Means:    "services of this build do not start",
			Remedy:   "run `pawl migrate`",
			Severity: checkup.Broken, Find: schemasBehind,
		},
		{
			Name:     "partitions",
			Promise:  "the partitions of today and tomorrow are there",
			Means:    "rows go to the default partitions, which works as well but makes retention slow",
			Remedy:   "--repair makes them; services make them when they start and once an hour",
			Severity: checkup.Warning, Find: partitionsMissing,
			Repair: "makes the partitions that are missing, unless the default partition holds rows of the day",
			Mend:   makePartitions,
		},
		{
			Name:     "durability",
			Promise:  "I04: what PostgreSQL has committed is on disk",
			Means:    "a crash of the machine loses what was accepted",
			Remedy:   "set fsync, full_page_writes and synchronous_commit to on",
			Severity: checkup.Warning, Find: checkup.Query(unsafeSettings),
		},
		{
			Name:     "connections",
			Promise:  "PostgreSQL has room for all connections that the running services may open",
			Means:    "services cannot connect, and steps wait",
			Remedy:   "raise max_connections, or lower the services' --database-max-conns",
			Severity: checkup.Warning, Find: checkup.Query(connections, mainConns, controlConns, connsLeft),
		},
		{
			Name:     "old-snapshot",
			Promise:  "no transaction is older than half a minute",
			Means:    "dead rows cannot be removed: looks for timers and READY steps become slow",
			Remedy:   "end the session with pg_terminate_backend, or the prepared transaction with ROLLBACK PREPARED",
			Severity: checkup.Warning, Find: checkup.Query(oldSnapshots, oldAfter),
		},
		{
			Name:     "replicas",
			Promise:  "an orchestrator, a step-runner and an LLM gateway are alive",
			Means:    "runs do not move",
			Remedy:   "start the services: `pawl serve`",
			Severity: checkup.Broken, Settles: restartTime, Find: checkup.Query(nobodyAlive),
		},
	}
}

const oldPostgres = `
SELECT 'version', NULL::uuid, 'PostgreSQL is version ' || current_setting('server_version')
WHERE current_setting('server_version_num')::integer < $1::integer * 10000`

const unsafeSettings = `
SELECT s.name, NULL::uuid, s.name || ' is ' || s.setting
FROM pg_settings s
WHERE s.name IN ('fsync', 'full_page_writes') AND s.setting <> 'on'
   OR s.name = 'synchronous_commit' AND s.setting IN ('off', 'local')`

const connections = `
WITH a AS (
    SELECT current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer AS room,
           (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
           (SELECT count(*) FROM core.replica WHERE seen_at > now() - interval '5 seconds') AS orchestrators,
           (SELECT count(*) FROM llm.replica WHERE lease_until > now()) AS gateways
)
SELECT 'left', NULL::uuid, a.used || ' of ' || a.room || ' connections are in use'
FROM a WHERE a.room - a.used < $3::integer
UNION ALL
SELECT 'cap', NULL::uuid, a.orchestrators || ' orchestrators, ' || a.gateways || ' LLM gateways and an intake may open ' ||
       (a.orchestrators + a.gateways) * ($1::integer + $2::integer) + $1::integer || ' connections, and there is room for ' || a.room
FROM a WHERE (a.orchestrators + a.gateways) * ($1::integer + $2::integer) + $1::integer > a.room`

const oldSnapshots = `
SELECT 'pid ' || s.pid || '/' || s.xact_start, NULL::uuid,
       'process ' || s.pid || ' (' || coalesce(nullif(s.application_name, ''), 'no name') || ', ' || coalesce(s.state, 'state unknown') ||
       ') has a transaction since ' || to_char(s.xact_start, 'YYYY-MM-DD HH24:MI:SS')
FROM pg_stat_activity s
WHERE s.datname = current_database() AND s.backend_type = 'client backend' AND s.xact_start < now() - $1::interval
  AND (s.backend_xmin IS NOT NULL OR s.backend_xid IS NOT NULL OR s.state LIKE 'idle in transaction%')
UNION ALL
SELECT 'prepared ' || p.gid, NULL::uuid, 'transaction ' || p.gid || ' is prepared since ' || to_char(p.prepared, 'YYYY-MM-DD HH24:MI:SS')
FROM pg_prepared_xacts p
WHERE p.database = current_database() AND p.prepared < now() - $1::interval`

const nobodyAlive = `
SELECT 'orchestrator', NULL::uuid, 'no orchestrator has written to core.replica for 3 seconds'
WHERE NOT EXISTS (SELECT FROM core.replica WHERE seen_at > now() - interval '3 seconds')
UNION ALL
SELECT 'step-runner', NULL::uuid, 'no step-runner has a lease'
WHERE NOT EXISTS (SELECT FROM core.runner WHERE lease_until > now())
UNION ALL
SELECT 'llm-gateway', NULL::uuid, 'no LLM gateway has a lease'
WHERE NOT EXISTS (SELECT FROM llm.replica WHERE lease_until > now())`

func schemasBehind(ctx context.Context, t *checkup.Target) ([]checkup.Finding, error) {
	var found []checkup.Finding
	for _, s := range serve.Schemas() {
		have, need, err := s.Versions(ctx, t.Pool)
		if err != nil {
			return nil, err
		}
		if have < need {
			found = append(found, checkup.Finding{
				Key: s.Name, Detail: fmt.Sprintf("schema %s is at version %d, and this build needs %d", s.Name, have, need),
			})
		}
	}
	return found, nil
}

func partitionsMissing(ctx context.Context, t *checkup.Target) ([]checkup.Finding, error) {
	var found []checkup.Finding
	for _, s := range serve.Schemas() {
		missing, err := pg.MissingPartitions(ctx, t.Pool, s.Name, t.Clock.Now())
		if err != nil {
			return nil, err
		}
		for _, name := range missing {
			found = append(found, checkup.Finding{Key: name, Detail: name + " is missing"})
		}
	}
	return found, nil
}

func makePartitions(ctx context.Context, t *checkup.Target, found []checkup.Finding) (int, error) {
	for _, s := range serve.Schemas() {
		if err := pg.MakePartitions(ctx, t.Pool, s.Name, t.Clock.Now()); err != nil {
			return 0, err
		}
	}
	return len(found), nil
}
