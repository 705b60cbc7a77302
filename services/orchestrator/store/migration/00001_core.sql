-- The orchestrator's schema: the truth about pipelines, documents, runs and steps.
--
-- Documents of users and models are of type json, which keeps them verbatim: jsonb refuses \u0000 and lone surrogates,
-- rewrites numbers and drops duplicate keys. Enumerations are text with a CHECK that a test holds against the constants of
-- package machine. Empty text stands for "none"; what is NULL has no value yet. Hot tables have no foreign keys.
--
-- Big tables are partitioned by run_id: UUID v7 is ordered by time, so a day is a range of ids, and keys stay unique per
-- run. The orchestrator makes the days ahead, with the storage options of the default partition, which takes what comes
-- before its day was made.

-- +goose Up

-- The schema is there already when `pawl migrate` runs this; the line is for sqlc.
CREATE SCHEMA IF NOT EXISTS core;

-- A version of a pipeline. Never updated.
CREATE TABLE core.pipeline (
    tenant     text        NOT NULL,
    name       text        NOT NULL,
    version    text        NOT NULL,
    -- The version's number: v10 is newer than v9.
    ordinal    integer     NOT NULL GENERATED ALWAYS AS (substr(version, 2)::integer) STORED,
    -- SHA-256 of the content; comments and layout do not count.
    digest     bytea       NOT NULL CHECK (length(digest) = 32),
    -- As it was registered; compiled again it gives the same pipeline.
    source     text        NOT NULL,
    -- The names of its steps in their order, for lists.
    steps      text[]      NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text        NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, name, version)
);
CREATE INDEX pipeline_newest ON core.pipeline (tenant, name, ordinal DESC);
CREATE UNIQUE INDEX pipeline_digest ON core.pipeline (tenant, digest);

-- A text of a user's. Never updated.
CREATE TABLE core.document (
    id          uuid        PRIMARY KEY,
    tenant      text        NOT NULL,
    external_id text        NOT NULL DEFAULT '',
    media_type  text        NOT NULL,
    -- SHA-256 and length of the text.
    sha256      bytea       NOT NULL CHECK (length(sha256) = 32),
    bytes       bigint      NOT NULL,
    -- The text, zstd-compressed.
    content     bytea       NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz
);
ALTER TABLE core.document ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX document_tenant ON core.document (tenant, id);
CREATE INDEX document_expires ON core.document (expires_at) WHERE expires_at IS NOT NULL;

-- Makes creating calls safe to repeat: the winner of a key stands here, written in the transaction that creates.
CREATE TABLE core.idempotency (
    tenant         text        NOT NULL,
    key            text        NOT NULL,
    request_digest bytea       NOT NULL CHECK (length(request_digest) = 32),
    kind           text        NOT NULL CHECK (kind IN ('run', 'job', 'extract', 'document', 'batch')),
    resource_id    uuid        NOT NULL,
    -- Not deleted before, and never before the resource.
    expires_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_expires ON core.idempotency (expires_at);

-- The head of a run. What never changes stands first, so that the log of an update holds only the columns behind.
CREATE TABLE core.pipeline_run (
    id                  uuid           NOT NULL,
    tenant              text           NOT NULL,
    kind                text           NOT NULL CHECK (kind IN ('run', 'job', 'extract')),
    pipeline            text           NOT NULL,
    pipeline_version    text           NOT NULL,
    pipeline_digest     bytea          NOT NULL CHECK (length(pipeline_digest) = 32),
    steps_total         integer        NOT NULL,
    -- The step whose output is the run's result.
    output_step         text           NOT NULL,
    entity_id           text           NOT NULL DEFAULT '',
    document_id         uuid,
    batch_id            uuid,
    callback_url        text           NOT NULL DEFAULT '',
    labels              jsonb          NOT NULL DEFAULT '{}',
    -- Either the input or, for a large one, its number in core.payload.
    input               json,
    input_payload       integer,
    input_bytes         integer        NOT NULL DEFAULT 0,
    not_before          timestamptz,
    created_at          timestamptz    NOT NULL,
    -- What follows is written by the store's group commit alone.
    class               text           NOT NULL CHECK (class IN ('interactive', 'batch')),
    priority            integer        NOT NULL DEFAULT 0,
    budget_usd          numeric(20,12),
    status              text           NOT NULL CHECK (status IN
        ('queued', 'running', 'needs_review', 'compensating', 'done', 'failed', 'cancelled')),
    -- machine.State: the phase of every step, and the counters of fan-outs.
    state               json           NOT NULL,
    -- The first step in pipeline order that is not finished; empty at the end.
    current_step        text           NOT NULL DEFAULT '',
    steps_done          integer        NOT NULL DEFAULT 0,
    reason              text           NOT NULL DEFAULT '',
    error               text           NOT NULL DEFAULT '',
    undo                text           CHECK (undo IN ('none', 'done', 'partial')),
    spend_epoch         integer        NOT NULL DEFAULT 1,
    -- A copy of llm.run_spend, guarded by its version.
    cost_usd            numeric(20,12) NOT NULL DEFAULT 0,
    cost_version        bigint         NOT NULL DEFAULT 0,
    -- Number of the newest entry in core.run_event, and of the newest in core.payload.
    seq                 bigint         NOT NULL DEFAULT 0,
    payloads            integer        NOT NULL DEFAULT 0,
    -- Length of the input and of all items and outputs that were ever stored: an upper bound of what a claim can ask for.
    bytes               bigint         NOT NULL DEFAULT 0,
    -- Grows with every change of this row.
    version             bigint         NOT NULL DEFAULT 1,
    deadline_at         timestamptz    NOT NULL,
    paused_at           timestamptz,
    cancel_requested_at timestamptz,
    started_at          timestamptz,
    finished_at         timestamptz,
    updated_at          timestamptz    NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX pipeline_run_tenant ON core.pipeline_run (tenant, id);
CREATE INDEX pipeline_run_status ON core.pipeline_run (tenant, status, id);
CREATE INDEX pipeline_run_entity ON core.pipeline_run (tenant, entity_id, id) WHERE entity_id <> '';
CREATE INDEX pipeline_run_deadline ON core.pipeline_run (deadline_at) WHERE finished_at IS NULL AND paused_at IS NULL;
CREATE TABLE core.pipeline_run_default PARTITION OF core.pipeline_run DEFAULT WITH (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0
);

-- A step or shard that is not finished and not merely pending; a pending shard has a row, which holds its item.
CREATE TABLE core.step_live (
    run_id       uuid        NOT NULL,
    step         text        NOT NULL,
    -- Index of the shard; -1 for the step itself.
    shard        integer     NOT NULL DEFAULT -1 CHECK (shard >= -1),
    generation   integer     NOT NULL,
    tenant       text        NOT NULL,
    -- A shard's item or, for a large one, its number in core.payload.
    item         json,
    item_payload integer,
    -- What follows is written by the store's group commit alone.
    class        text        NOT NULL CHECK (class IN ('interactive', 'batch')),
    priority     integer     NOT NULL DEFAULT 0,
    -- Whether the run has begun: begun runs go first.
    begun        boolean     NOT NULL DEFAULT false,
    -- Whether the run's batch or pipeline is paused: it is not dispatched.
    held         boolean     NOT NULL DEFAULT false,
    status       text        NOT NULL CHECK (status IN
        ('pending', 'ready', 'queued', 'running', 'backoff', 'expanded', 'waiting', 'needs_review')),
    -- Claims that were not given back; transient failures; leases lost; requests sent to models in this generation.
    attempt      integer     NOT NULL DEFAULT 0,
    failures     integer     NOT NULL DEFAULT 0,
    losses       integer     NOT NULL DEFAULT 0,
    calls        integer     NOT NULL DEFAULT 0,
    -- Number of the next attempt's first question to a model.
    ask_base     integer     NOT NULL DEFAULT 0,
    -- How many calls of unknown fate may be sent again.
    ambiguous_ok integer     NOT NULL DEFAULT 0,
    -- Whether an earlier attempt may have made its outside effect without telling.
    unsure       boolean     NOT NULL DEFAULT false,
    -- Claims of this generation, the claim whose outcome is owed, the newest claim, and who made it.
    claim_no     integer     NOT NULL DEFAULT 0,
    fence        uuid,
    last_fence   uuid,
    worker       uuid,
    -- Of the newest failure, wait or review.
    reason       text        NOT NULL DEFAULT '',
    error        text        NOT NULL DEFAULT '',
    -- Timer of the state: RUNNING the hard timeout, BACKOFF the retry, WAITING the wake-up.
    due_at       timestamptz,
    ready_at     timestamptz,
    queued_at    timestamptz,
    claimed_at   timestamptz,
    PRIMARY KEY (run_id, step, shard)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_threshold = 5000, autovacuum_analyze_scale_factor = 0
);
CREATE INDEX step_live_ready ON core.step_live (class, tenant, priority DESC, begun DESC, ready_at)
    WHERE status = 'ready' AND NOT held;
CREATE INDEX step_live_queued ON core.step_live (class, queued_at) WHERE status = 'queued';
CREATE INDEX step_live_worker ON core.step_live (worker, claimed_at) WHERE status = 'running';
CREATE INDEX step_live_due ON core.step_live (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX step_live_review ON core.step_live (run_id, step, shard) WHERE status = 'needs_review';

-- How a step or shard ended, or the result that a person must judge. At most one each: what is replaced goes to
-- core.step_history.
CREATE TABLE core.pipeline_step_result (
    run_id         uuid           NOT NULL,
    step           text           NOT NULL,
    shard          integer        NOT NULL DEFAULT -1,
    generation     integer        NOT NULL,
    status         text           NOT NULL CHECK (status IN
        ('needs_review', 'done', 'skipped', 'failed', 'cancelled', 'compensated')),
    attempt        integer        NOT NULL,
    -- The output or, for a large one, its number in core.payload. A fan-out step itself has none: its shards do.
    output         json,
    output_payload integer,
    output_bytes   integer        NOT NULL DEFAULT 0,
    -- Of the attempt that ended the step.
    input_tokens   bigint         NOT NULL DEFAULT 0,
    output_tokens  bigint         NOT NULL DEFAULT 0,
    cost_usd       numeric(20,12) NOT NULL DEFAULT 0,
    reason         text           NOT NULL DEFAULT '',
    error          text           NOT NULL DEFAULT '',
    -- The claim whose outcome it is, and who made it; NULL where the orchestrator decided by itself.
    fence          uuid,
    worker         uuid,
    claim_no       integer        NOT NULL DEFAULT 0,
    ask_base       integer        NOT NULL DEFAULT 0,
    queued_at      timestamptz,
    started_at     timestamptz,
    finished_at    timestamptz    NOT NULL,
    PRIMARY KEY (run_id, step, shard)
) PARTITION BY RANGE (run_id);
CREATE TABLE core.pipeline_step_result_default PARTITION OF core.pipeline_step_result DEFAULT WITH (fillfactor = 95);

-- Results that a rerun or a correction has replaced.
CREATE TABLE core.step_history (
    run_id         uuid           NOT NULL,
    step           text           NOT NULL,
    shard          integer        NOT NULL,
    generation     integer        NOT NULL,
    -- Number in core.run_event of what replaced it.
    replaced_seq   bigint         NOT NULL,
    replaced_at    timestamptz    NOT NULL,
    status         text           NOT NULL,
    attempt        integer        NOT NULL,
    output         json,
    output_payload integer,
    output_bytes   integer        NOT NULL,
    input_tokens   bigint         NOT NULL,
    output_tokens  bigint         NOT NULL,
    cost_usd       numeric(20,12) NOT NULL,
    reason         text           NOT NULL,
    error          text           NOT NULL,
    fence          uuid,
    worker         uuid,
    claim_no       integer        NOT NULL,
    ask_base       integer        NOT NULL,
    queued_at      timestamptz,
    started_at     timestamptz,
    finished_at    timestamptz    NOT NULL,
    PRIMARY KEY (run_id, step, shard, generation, replaced_seq)
) PARTITION BY RANGE (run_id);
CREATE TABLE core.step_history_default PARTITION OF core.step_history DEFAULT;

-- The journal: one row for each attempt's outcome and each decision. Append-only.
CREATE TABLE core.run_event (
    run_id  uuid        NOT NULL,
    -- From 1, without gaps.
    seq     bigint      NOT NULL,
    at      timestamptz NOT NULL,
    -- `system`, `worker:<instance>` or `person:<name>`.
    actor   text        NOT NULL,
    kind    text        NOT NULL,
    -- Empty for entries about the run.
    step    text        NOT NULL DEFAULT '',
    shard   integer     NOT NULL DEFAULT -1,
    attempt integer     NOT NULL DEFAULT 0,
    detail  json        NOT NULL,
    PRIMARY KEY (run_id, seq)
) PARTITION BY RANGE (run_id);
CREATE TABLE core.run_event_default PARTITION OF core.run_event DEFAULT;

-- Large inputs, items and outputs, zstd-compressed. A run's own: nothing is shared between runs.
CREATE TABLE core.payload (
    run_id  uuid    NOT NULL,
    n       integer NOT NULL,
    -- Length before compression.
    bytes   integer NOT NULL,
    content bytea   NOT NULL,
    PRIMARY KEY (run_id, n)
) PARTITION BY RANGE (run_id);
ALTER TABLE core.payload ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE TABLE core.payload_default PARTITION OF core.payload DEFAULT;

-- Outside effects, written durably before they are made.
CREATE TABLE core.effect (
    run_id     uuid        NOT NULL,
    step       text        NOT NULL,
    shard      integer     NOT NULL,
    generation integer     NOT NULL,
    -- The idempotency key that the other side gets: run/step/shard/generation.
    key        text        NOT NULL,
    state      text        NOT NULL CHECK (state IN ('begun', 'made', 'not_made', 'unknown', 'undone')),
    begun_at   timestamptz NOT NULL,
    ended_at   timestamptz,
    PRIMARY KEY (run_id, step, shard, generation)
) PARTITION BY RANGE (run_id);
CREATE TABLE core.effect_default PARTITION OF core.effect DEFAULT;

-- Results to be sent to clients. A row goes when the callback service has confirmed that it has it.
CREATE TABLE core.callback_owed (
    -- A run or a batch.
    subject_id uuid        NOT NULL,
    subject    text        NOT NULL CHECK (subject IN ('run', 'batch')),
    seq        bigint      NOT NULL,
    tenant     text        NOT NULL,
    event      text        NOT NULL CHECK (event IN ('run.done', 'run.failed', 'run.cancelled', 'run.needs_review')),
    url        text        NOT NULL,
    -- What the body is rendered from.
    snapshot   json        NOT NULL,
    owed_at    timestamptz NOT NULL,
    PRIMARY KEY (subject_id, seq)
);
CREATE INDEX callback_owed_at ON core.callback_owed (owed_at);

-- Purses to be closed or opened at the gateway. A row goes when the gateway has confirmed that epoch and gate.
CREATE TABLE core.spend_gate_owed (
    run_id     uuid        PRIMARY KEY,
    tenant     text        NOT NULL,
    epoch      integer     NOT NULL,
    open       boolean     NOT NULL,
    budget_usd numeric(20,12),
    owed_at    timestamptz NOT NULL
);
CREATE INDEX spend_gate_owed_at ON core.spend_gate_owed (owed_at);

-- Model calls to be aborted at the gateway.
CREATE TABLE core.call_cancel_owed (
    run_id     uuid        NOT NULL,
    -- Empty: all of the run.
    step       text        NOT NULL,
    generation integer     NOT NULL,
    owed_at    timestamptz NOT NULL,
    PRIMARY KEY (run_id, step, generation)
);
CREATE INDEX call_cancel_owed_at ON core.call_cancel_owed (owed_at);

-- What people did, as a chain: each row's hash covers the one before.
CREATE TABLE core.operator_action (
    seq           bigint      PRIMARY KEY,
    at            timestamptz NOT NULL,
    tenant        text        NOT NULL,
    actor         text        NOT NULL,
    action        text        NOT NULL,
    run_id        uuid        NOT NULL,
    step          text        NOT NULL DEFAULT '',
    shard         integer     NOT NULL DEFAULT -1,
    reason        text        NOT NULL DEFAULT '',
    before        json        NOT NULL,
    after         json        NOT NULL,
    previous_hash bytea       NOT NULL,
    hash          bytea       NOT NULL
);
CREATE INDEX operator_action_run ON core.operator_action (run_id, seq);

-- Questions to people.
CREATE TABLE core.review (
    id          uuid        PRIMARY KEY,
    tenant      text        NOT NULL,
    run_id      uuid        NOT NULL,
    step        text        NOT NULL,
    shard       integer     NOT NULL,
    generation  integer     NOT NULL,
    reason      text        NOT NULL,
    detail      text        NOT NULL DEFAULT '',
    opened_at   timestamptz NOT NULL,
    due_at      timestamptz,
    resolved_at timestamptz,
    resolved_by text        NOT NULL DEFAULT '',
    -- The event that resolved it.
    action      text        NOT NULL DEFAULT '',
    comment     text        NOT NULL DEFAULT '',
    patch       json
);
CREATE UNIQUE INDEX review_open ON core.review (run_id, step, shard) WHERE resolved_at IS NULL;
CREATE INDEX review_inbox ON core.review (tenant, opened_at, id) WHERE resolved_at IS NULL;
CREATE INDEX review_run ON core.review (run_id);

-- Step-runners; their leases are those of all that they hold.
CREATE TABLE core.runner (
    instance          uuid        PRIMARY KEY,
    description       text        NOT NULL DEFAULT '',
    interactive_slots integer     NOT NULL,
    batch_slots       integer     NOT NULL,
    started_at        timestamptz NOT NULL,
    heartbeat_at      timestamptz NOT NULL,
    lease_until       timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Replicas of the orchestrator: each writes here once a second, which proves to itself that PostgreSQL takes its writes.
CREATE TABLE core.replica (
    instance   uuid        PRIMARY KEY,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- What readers see of a run: all but its documents.
CREATE VIEW core.run_view AS
SELECT id, tenant, kind, pipeline, pipeline_version, pipeline_digest, steps_total, output_step, entity_id, document_id, labels,
       not_before, created_at, class, budget_usd, status, state, current_step, steps_done, reason, error,
       coalesce(undo, '')::text AS undo, spend_epoch, cost_usd, seq, bytes, version, deadline_at, paused_at,
       cancel_requested_at, started_at, finished_at, updated_at
FROM core.pipeline_run;

-- Every step and shard that has begun, or waits to, in one shape for readers.
CREATE VIEW core.step_state AS
SELECT l.run_id, l.step, l.shard, l.generation, l.status, l.attempt,
       r.output, r.output_payload, coalesce(r.output_bytes, 0) AS output_bytes,
       coalesce(r.input_tokens, 0) AS input_tokens, coalesce(r.output_tokens, 0) AS output_tokens,
       coalesce(r.cost_usd, 0) AS cost_usd,
       l.reason, l.error, l.worker, l.queued_at, l.claimed_at AS started_at, r.finished_at, l.due_at
FROM core.step_live l
LEFT JOIN core.pipeline_step_result r
       ON r.run_id = l.run_id AND r.step = l.step AND r.shard = l.shard AND r.generation = l.generation
      AND l.status = 'needs_review'
UNION ALL
SELECT r.run_id, r.step, r.shard, r.generation, r.status, r.attempt,
       r.output, r.output_payload, r.output_bytes, r.input_tokens, r.output_tokens, r.cost_usd,
       r.reason, r.error, r.worker, r.queued_at, r.started_at, r.finished_at, NULL
FROM core.pipeline_step_result r
WHERE NOT EXISTS (
    SELECT FROM core.step_live l WHERE l.run_id = r.run_id AND l.step = r.step AND l.shard = r.shard
);
