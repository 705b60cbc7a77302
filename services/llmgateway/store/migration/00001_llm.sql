-- The LLM gateway's schema: every call of a model with every request that was sent for it, and what runs have spent.
--
-- Requests are of type json, which keeps them verbatim; what providers answered is bytea, byte for byte. Enumerations are
-- text with a CHECK that a test holds against the constants of package store. Amounts are US dollars, never rounded. Empty
-- text stands for "none"; what is NULL has no value yet. There are no foreign keys.
--
-- Big tables are partitioned by run_id: UUID v7 is ordered by time, so a day is a range of ids, and keys stay unique per
-- run. The gateway makes the days ahead, with the storage options of the default partition, which takes what comes before
-- its day was made.

-- +goose Up

-- The schema is there already when `pawl migrate` runs this; the line is for sqlc.
CREATE SCHEMA IF NOT EXISTS llm;

-- A run's purse. Whoever changes a run's calls locks its row first, so that no two changes of a run cross.
CREATE TABLE llm.run_spend (
    run_id    uuid           NOT NULL,
    tenant    text           NOT NULL,
    -- NULL: no limit.
    budget    numeric(20,12),
    -- The worst case of the requests in flight.
    reserved  numeric(20,12) NOT NULL DEFAULT 0,
    -- The sum of llm_try.cost, always.
    spent     numeric(20,12) NOT NULL DEFAULT 0,
    -- Grows with every change of spent.
    version   bigint         NOT NULL DEFAULT 0,
    -- The run's spend epoch; grows when the run is opened again.
    epoch     integer        NOT NULL,
    -- Since when no request may begin.
    closed_at timestamptz,
    PRIMARY KEY (run_id)
) PARTITION BY RANGE (run_id);
CREATE TABLE llm.run_spend_default PARTITION OF llm.run_spend DEFAULT WITH (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0
);

-- Runs whose newest figure the orchestrator has not confirmed.
CREATE TABLE llm.spend_owed (
    run_id  uuid        NOT NULL PRIMARY KEY,
    version bigint      NOT NULL,
    since   timestamptz NOT NULL
) WITH (
    fillfactor = 70, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX spend_owed_since ON llm.spend_owed (since);

-- A question to a model: the same question of the same step has the same key, and is answered once.
CREATE TABLE llm.llm_call_log (
    run_id         uuid           NOT NULL,
    -- SHA-256 over run, step, shard, generation, ask and request.
    call_key       bytea          NOT NULL CHECK (length(call_key) = 32),
    tenant         text           NOT NULL,
    step           text           NOT NULL,
    -- -1 for the step itself.
    shard          integer        NOT NULL,
    generation     integer        NOT NULL,
    ask            integer        NOT NULL,
    class          text           NOT NULL CHECK (class IN ('interactive', 'batch')),
    -- Digest of the prompt's template.
    prompt_version text           NOT NULL,
    -- Route, messages, schema and sampling parameters, as canonical JSON.
    request        json           NOT NULL,
    created_at     timestamptz    NOT NULL,
    state          text           NOT NULL CHECK (state IN ('in_flight', 'answered', 'failed', 'ambiguous', 'cancelled')),
    -- Requests so far.
    tries          integer        NOT NULL,
    -- The request whose answer counts; set once.
    winning_try    integer,
    -- The sum over the requests.
    cost           numeric(20,12) NOT NULL DEFAULT 0,
    replays        integer        NOT NULL DEFAULT 0,
    finished_at    timestamptz,
    PRIMARY KEY (run_id, call_key)
) PARTITION BY RANGE (run_id);
CREATE TABLE llm.llm_call_log_default PARTITION OF llm.llm_call_log DEFAULT WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05
);

-- A request to a provider. The row is on disk before the first byte is sent.
CREATE TABLE llm.llm_try (
    run_id              uuid           NOT NULL,
    call_key            bytea          NOT NULL,
    -- From 1.
    try_no              integer        NOT NULL,
    provider            text           NOT NULL,
    model               text           NOT NULL,
    -- How the answer is to be read.
    format              text           NOT NULL,
    -- Where the API key came from; never the key.
    key_id              text           NOT NULL,
    max_output_tokens   bigint         NOT NULL,
    price_id            bigint         NOT NULL,
    -- The gateway that sent it.
    holder              uuid           NOT NULL,
    permit_wait         interval       NOT NULL,
    sent_at             timestamptz    NOT NULL,
    state               text           NOT NULL CHECK (
        state IN ('in_flight', 'answered', 'failed', 'ambiguous', 'cancelled', 'not_sent')
    ),
    -- The worst case, until it is settled.
    reserved            numeric(20,12) NOT NULL,
    cost                numeric(20,12) NOT NULL DEFAULT 0,
    -- Whether the cost follows from the provider's counts, from an estimate, or is the worst case because nobody knows.
    cost_basis          text           NOT NULL DEFAULT '' CHECK (cost_basis IN ('', 'counted', 'estimated', 'worst_case')),
    http_status         integer        NOT NULL DEFAULT 0,
    reason              text           NOT NULL DEFAULT '',
    message             text           NOT NULL DEFAULT '',
    finish_reason       text           NOT NULL DEFAULT '',
    provider_request_id text           NOT NULL DEFAULT '',
    input_tokens        bigint         NOT NULL DEFAULT 0,
    cached_input_tokens bigint         NOT NULL DEFAULT 0,
    cache_write_tokens  bigint         NOT NULL DEFAULT 0,
    output_tokens       bigint         NOT NULL DEFAULT 0,
    reasoning_tokens    bigint         NOT NULL DEFAULT 0,
    -- From the first byte sent to the last one received.
    latency             interval       NOT NULL DEFAULT '0',
    -- What came back, byte for byte, also when it could not be read or broke off.
    answer              bytea,
    finished_at         timestamptz,
    PRIMARY KEY (run_id, call_key, try_no)
) PARTITION BY RANGE (run_id);
CREATE INDEX llm_try_holder ON llm.llm_try (holder) WHERE state = 'in_flight';
CREATE TABLE llm.llm_try_default PARTITION OF llm.llm_try DEFAULT WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05
);

-- Steps whose calls were to be aborted, for the replicas that did not get the order.
CREATE TABLE llm.cancelled_step (
    run_id     uuid        NOT NULL,
    step       text        NOT NULL,
    generation integer     NOT NULL,
    at         timestamptz NOT NULL,
    PRIMARY KEY (run_id, step, generation)
) PARTITION BY RANGE (run_id);
CREATE TABLE llm.cancelled_step_default PARTITION OF llm.cancelled_step DEFAULT;

-- What models cost, as models files have said. Rows are never changed: a corrected price is a row of its own.
CREATE TABLE llm.model_price (
    id           bigint         NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider     text           NOT NULL,
    -- "*" for every model that has no row of its own.
    model        text           NOT NULL,
    tier         text           NOT NULL DEFAULT 'standard',
    valid_from   timestamptz    NOT NULL,
    -- Prompts of more tokens than this.
    above_tokens bigint         NOT NULL DEFAULT 0,
    -- US dollars per million tokens.
    input        numeric(20,12) NOT NULL,
    cached_input numeric(20,12) NOT NULL,
    cache_write  numeric(20,12) NOT NULL,
    output       numeric(20,12) NOT NULL,
    loaded_at    timestamptz    NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (provider, model, tier, valid_from, above_tokens, input, cached_input, cache_write, output)
);

-- The gateways that hold requests in flight, each with a lease.
CREATE TABLE llm.replica (
    holder      uuid        NOT NULL PRIMARY KEY,
    description text        NOT NULL,
    started_at  timestamptz NOT NULL,
    lease_until timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
