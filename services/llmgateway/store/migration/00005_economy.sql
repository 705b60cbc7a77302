-- The economy lane: requests that go through a provider's batch API, at its discount, and are answered hours later. The call
-- and its request stand in the log like any other; the request's holder is no gateway, but the lane.

-- +goose Up

-- A batch at a provider. Rows go when the batch has ended and its items are settled.
CREATE TABLE llm.economy_job (
    -- UUID v7. The provider is told it where it keeps such things, so that a batch is found again whose creation nobody noted.
    id           uuid        NOT NULL PRIMARY KEY,
    provider     text        NOT NULL,
    model        text        NOT NULL,
    -- preparing: it may or may not be at the provider; sent: it is; cancelling: it was asked to stop.
    state        text        NOT NULL CHECK (state IN ('preparing', 'sent', 'cancelling')),
    -- The gateway that prepares it.
    holder       uuid        NOT NULL,
    -- The provider's name for it; empty while that is not known.
    provider_job text        NOT NULL DEFAULT '',
    items        integer     NOT NULL,
    created_at   timestamptz NOT NULL,
    -- When its state is to be asked for next.
    look_at      timestamptz NOT NULL
);

-- A request in the lane, beside its row in llm_try.
CREATE TABLE llm.economy_item (
    run_id     uuid        NOT NULL,
    call_key   bytea       NOT NULL CHECK (length(call_key) = 32),
    try_no     integer     NOT NULL,
    -- The item's name within the batch.
    custom_id  text        NOT NULL,
    -- Whom to wake.
    step       text        NOT NULL,
    shard      integer     NOT NULL,
    generation integer     NOT NULL,
    provider   text        NOT NULL,
    model      text        NOT NULL,
    -- The request as the provider gets it, personal data included; empty once its fate is known.
    body       bytea       NOT NULL,
    -- waiting: for a batch; sent: with one; withdrawn: it will not be answered, and its request is to be settled so;
    -- done: settled, and its step is to be told.
    state      text        NOT NULL CHECK (state IN ('waiting', 'sent', 'withdrawn', 'done')),
    job_id     uuid,
    -- When it must have been answered, so that there is time left to ask in the usual way.
    live_by    timestamptz NOT NULL,
    added_at   timestamptz NOT NULL,
    -- When the step is to be told, and how often it was.
    tell_at    timestamptz,
    told       integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, call_key, try_no)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX economy_item_waiting ON llm.economy_item (provider, model, added_at) WHERE state = 'waiting';
CREATE INDEX economy_item_live_by ON llm.economy_item (live_by) WHERE state IN ('waiting', 'sent');
CREATE INDEX economy_item_job ON llm.economy_item (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX economy_item_withdrawn ON llm.economy_item (added_at) WHERE state = 'withdrawn';
CREATE INDEX economy_item_done ON llm.economy_item (tell_at) WHERE state = 'done';
