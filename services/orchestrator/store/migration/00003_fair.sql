-- Shares of tenants, and caps: on the steps of a tenant or of a pipeline that are dispatched and not finished, and on the
-- runs of a pipeline with equal keys that are begun and not finished.

-- +goose Up

-- How tenants share the runners. A tenant without a row has weight 1 and no cap.
CREATE TABLE core.tenant_policy (
    tenant               text        PRIMARY KEY,
    weight               integer     NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    -- NULL: no cap.
    max_concurrent_steps integer     CHECK (max_concurrent_steps > 0),
    -- Grows with every change; an older one changes nothing.
    version              bigint      NOT NULL,
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The value of the pipeline's concurrency key for this run; empty without one.
ALTER TABLE core.pipeline_run ADD COLUMN concurrency_key text NOT NULL DEFAULT '';

-- Runs that count against the limit of their key, from the dispatch of their first step to their end. Those of runs that have
-- ended do not count, and are removed in time.
CREATE TABLE core.key_holder (
    run_id   uuid PRIMARY KEY,
    tenant   text NOT NULL,
    pipeline text NOT NULL,
    key      text NOT NULL
);
CREATE INDEX key_holder_key ON core.key_holder (tenant, pipeline, key);

ALTER TABLE core.step_live
    -- The pipeline, if it has caps of its own: the step then waits in the pipeline's line and not in the tenant's. Held is
    -- true for all steps in lines, so that who knows nothing of caps leaves them alone; paused says that the run is paused.
    ADD COLUMN line      text    COLLATE "C" NOT NULL DEFAULT '',
    -- The key of a run that does not count against its limit yet: a line of its own.
    ADD COLUMN line_key  text    COLLATE "C" NOT NULL DEFAULT '',
    -- How many steps of the pipeline may be dispatched, and how many runs of the key begun; 0: no limit.
    ADD COLUMN max_steps integer NOT NULL DEFAULT 0,
    ADD COLUMN max_runs  integer NOT NULL DEFAULT 0,
    ADD COLUMN paused    boolean NOT NULL DEFAULT false,
    -- Whether the step counts against a cap of its tenant or pipeline, as was known when it was dispatched.
    ADD COLUMN counted   boolean NOT NULL DEFAULT false;
UPDATE core.step_live SET paused = true WHERE held;
CREATE INDEX step_live_line ON core.step_live (class, tenant, line_key, line, priority DESC, begun DESC, ready_at)
    WHERE status = 'ready' AND line <> '' AND NOT paused;
CREATE INDEX step_live_counted ON core.step_live (tenant, line) WHERE counted AND status IN ('queued', 'running');
