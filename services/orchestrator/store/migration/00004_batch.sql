-- Batches: many runs of one pipeline that are told, stopped and paid for together; and how many runs tenants have that have not
-- ended.
--
-- Counts have no hot row: each group of events adds one row of differences for a batch and state, which any replica folds into
-- the counts every second. Readers add the two.

-- +goose Up

CREATE TABLE core.batch (
    id                  uuid             PRIMARY KEY,
    tenant              text             NOT NULL,
    pipeline            text             NOT NULL,
    pipeline_version    text             NOT NULL,
    label               text             NOT NULL DEFAULT '',
    class               text             NOT NULL CHECK (class IN ('interactive', 'batch')),
    priority            integer          NOT NULL DEFAULT 0,
    labels              jsonb            NOT NULL DEFAULT '{}',
    callback_url        text             NOT NULL DEFAULT '',
    -- Of all items together, and of each.
    budget_usd          numeric(20,12),
    item_budget_usd     numeric(20,12),
    deadline_at         timestamptz,
    created_by          text             NOT NULL DEFAULT '',
    created_at          timestamptz      NOT NULL,
    -- When the last item was submitted. No other is taken afterwards, nor after a cancel was asked for.
    sealed_at           timestamptz,
    paused_at           timestamptz,
    cancel_requested_at timestamptz,
    finished_at         timestamptz,
    -- Grows with every decision.
    version             bigint           NOT NULL DEFAULT 1,
    -- What is being carried out on the runs, how far it is, and until when a replica works on it.
    operation           text             NOT NULL DEFAULT '' CHECK (operation IN ('', 'cancel', 'pause', 'resume', 'retry_failed')),
    operation_no        bigint           NOT NULL DEFAULT 0,
    operation_at        timestamptz      NOT NULL DEFAULT 'epoch',
    operation_actor     text             NOT NULL DEFAULT '',
    operation_reason    text             NOT NULL DEFAULT '',
    only_reason         text             NOT NULL DEFAULT '',
    raised_usd          numeric(20,12),
    after_run           uuid             NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    after_at            timestamptz      NOT NULL DEFAULT 'epoch',
    worked_until        timestamptz      NOT NULL DEFAULT 'epoch',
    -- How many callbacks were owed.
    callbacks           bigint           NOT NULL DEFAULT 0,
    -- How many items had ended when that was last looked at, and how many did so in a minute.
    pace_at             timestamptz,
    pace_ended          bigint           NOT NULL DEFAULT 0,
    per_minute          double precision
) WITH (fillfactor = 50);
CREATE INDEX batch_tenant ON core.batch (tenant, id);
CREATE INDEX batch_operation ON core.batch (worked_until) WHERE operation <> '';
CREATE INDEX batch_open ON core.batch (id) WHERE finished_at IS NULL;

-- Items that were refused and never made.
CREATE TABLE core.batch_rejected (
    batch_id  uuid        NOT NULL,
    -- Its place in the batch, from 0.
    index     integer     NOT NULL,
    custom_id text        NOT NULL,
    reason    text        NOT NULL,
    error     text        NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (batch_id, index)
);

-- Runs of a batch by state and, where they have one, reason.
CREATE TABLE core.batch_count (
    batch_id uuid          NOT NULL,
    status   text          NOT NULL,
    reason   text          NOT NULL,
    n        bigint        NOT NULL,
    cost_usd numeric(20,12) NOT NULL,
    -- One of the runs.
    example  uuid          NOT NULL,
    PRIMARY KEY (batch_id, status, reason)
) WITH (fillfactor = 50);
CREATE TABLE core.batch_delta (
    id       bigint        GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id uuid          NOT NULL,
    status   text          NOT NULL,
    reason   text          NOT NULL,
    n        bigint        NOT NULL,
    cost_usd numeric(20,12) NOT NULL,
    example  uuid          NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX batch_delta_batch ON core.batch_delta (batch_id);

-- Runs of a tenant and class that have not ended and do not wait for a person.
CREATE TABLE core.tenant_count (
    tenant text   NOT NULL,
    class  text   NOT NULL,
    n      bigint NOT NULL,
    PRIMARY KEY (tenant, class)
) WITH (fillfactor = 50);
CREATE TABLE core.tenant_delta (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text   NOT NULL,
    class  text   NOT NULL,
    n      bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
INSERT INTO core.tenant_count (tenant, class, n)
SELECT tenant, class, count(*) FROM core.pipeline_run WHERE status IN ('queued', 'running', 'compensating') GROUP BY tenant, class;

-- The item's name within its batch.
ALTER TABLE core.pipeline_run ADD COLUMN custom_id text NOT NULL DEFAULT '';
CREATE INDEX pipeline_run_batch ON core.pipeline_run (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX pipeline_run_batch_open ON core.pipeline_run (batch_id, id) WHERE batch_id IS NOT NULL AND finished_at IS NULL;
CREATE INDEX pipeline_run_batch_ended ON core.pipeline_run (batch_id, finished_at, id)
    WHERE batch_id IS NOT NULL AND finished_at IS NOT NULL;

ALTER TABLE core.callback_owed DROP CONSTRAINT callback_owed_event_check;
ALTER TABLE core.callback_owed ADD CONSTRAINT callback_owed_event_check
    CHECK (event IN ('run.done', 'run.failed', 'run.cancelled', 'run.needs_review', 'batch.completed'));

-- What readers see of a run: all but its documents. New columns stand at the end.
CREATE OR REPLACE VIEW core.run_view AS
SELECT id, tenant, kind, pipeline, pipeline_version, pipeline_digest, steps_total, output_step, entity_id, document_id, labels,
       not_before, created_at, class, budget_usd, status, state, current_step, steps_done, reason, error,
       coalesce(undo, '')::text AS undo, spend_epoch, cost_usd, seq, bytes, version, deadline_at, paused_at,
       cancel_requested_at, started_at, finished_at, updated_at, batch_id, custom_id
FROM core.pipeline_run;
