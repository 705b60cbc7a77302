-- Money by day: what was spent is kept by tenant, origin, model and day besides the log, budgets beyond a run's have a table,
-- and prices know tiers, sizes of prompts, caches for an hour, tools and ends.
--
-- A request whose price was not known has cost_basis 'unpriced', and as its cost what was reserved for it, which may be 0:
-- nobody knows what it has cost, and whoever shows it shows nothing instead of an amount.

-- +goose Up

ALTER TABLE llm.model_price
    -- NULL: no end.
    ADD COLUMN valid_to       timestamptz,
    -- NULL: not known; what was cached for an hour is unpriced then.
    ADD COLUMN cache_write_1h numeric(20,12),
    -- NULL: what output costs.
    ADD COLUMN reasoning      numeric(20,12),
    -- US dollars per million calls, by tool.
    ADD COLUMN tool_calls     jsonb NOT NULL DEFAULT '{}',
    -- NULL: no batch tier but in rows of its own.
    ADD COLUMN batch_factor   numeric(20,12),
    DROP CONSTRAINT model_price_provider_model_tier_valid_from_above_tokens_inp_key,
    ADD CONSTRAINT model_price_row UNIQUE NULLS NOT DISTINCT (
        provider, model, tier, valid_from, valid_to, above_tokens, input, cached_input, cache_write, cache_write_1h, output, reasoning,
        tool_calls, batch_factor
    );

-- The batch of the run, for its budget; NULL for none.
ALTER TABLE llm.run_spend ADD COLUMN batch_id uuid;

-- Who asked: a pipeline as name:version, or an endpoint.
ALTER TABLE llm.llm_call_log ADD COLUMN origin text NOT NULL DEFAULT '';

ALTER TABLE llm.llm_try
    -- The service tier that was billed; empty until then.
    ADD COLUMN tier                  text NOT NULL DEFAULT '',
    -- The cost by what it was paid for, US dollars as texts; empty when it does not follow from counts.
    ADD COLUMN cost_split            jsonb NOT NULL DEFAULT '{}',
    -- Input cached for an hour; cache_write_tokens are the others.
    ADD COLUMN cache_write_1h_tokens bigint NOT NULL DEFAULT 0,
    -- Calls of the provider's own tools, by tool.
    ADD COLUMN tool_calls            jsonb NOT NULL DEFAULT '{}',
    -- The cost that spend_day has of it; NULL before it is settled, and for what an older gateway has settled.
    ADD COLUMN booked                numeric(20,12),
    DROP CONSTRAINT llm_try_cost_basis_check,
    -- Every row fits: the words have only become more.
    ADD CONSTRAINT llm_try_cost_basis_check CHECK (
        cost_basis IN ('', 'counted', 'estimated', 'worst_case', 'unpriced')
    ) NOT VALID;
-- What spend_day does not have yet.
CREATE INDEX llm_try_unbooked ON llm.llm_try (run_id) WHERE state <> 'in_flight' AND booked IS DISTINCT FROM cost;

-- What was spent on a day, in UTC, by the time at which requests were settled. Its sum is that of llm_try.booked. Each lane of
-- each gateway has rows of its own, so that none waits for another; those of gateways that are gone are folded into the rows
-- of holder zero.
CREATE TABLE llm.spend_day (
    day                   date           NOT NULL,
    tenant                text           NOT NULL,
    origin                text           NOT NULL,
    provider              text           NOT NULL,
    model                 text           NOT NULL,
    class                 text           NOT NULL,
    holder                uuid           NOT NULL,
    lane                  integer        NOT NULL,
    -- Requests that may have reached the provider, those that were answered, and those whose price was not known.
    calls                 bigint         NOT NULL,
    answered              bigint         NOT NULL,
    unpriced              bigint         NOT NULL,
    input_tokens          bigint         NOT NULL,
    cached_input_tokens   bigint         NOT NULL,
    cache_write_tokens    bigint         NOT NULL,
    cache_write_1h_tokens bigint         NOT NULL,
    output_tokens         bigint         NOT NULL,
    reasoning_tokens      bigint         NOT NULL,
    cost                  numeric(20,12) NOT NULL,
    PRIMARY KEY (tenant, day, origin, provider, model, class, holder, lane)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX spend_day_day ON llm.spend_day (day);

-- The same money by what budgets hold for: a tenant's month (period is its first day) and a batch (period is 1970-01-01).
CREATE TABLE llm.spend_sum (
    kind   text           NOT NULL CHECK (kind IN ('tenant_month', 'batch')),
    id     text           NOT NULL,
    period date           NOT NULL,
    holder uuid           NOT NULL,
    lane   integer        NOT NULL,
    cost   numeric(20,12) NOT NULL,
    PRIMARY KEY (kind, id, period, holder, lane)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Budgets beyond a run's: a tenant's for each calendar month in UTC (id is the tenant), and a batch's (id is its UUID).
CREATE TABLE llm.budget (
    kind   text           NOT NULL CHECK (kind IN ('tenant_month', 'batch')),
    id     text           NOT NULL,
    amount numeric(20,12) NOT NULL CHECK (amount >= 0),
    set_at timestamptz    NOT NULL,
    PRIMARY KEY (kind, id)
);

-- What was changed in the log after the fact, because prices were corrected: one row for each application of new prices to a
-- model's requests.
CREATE TABLE llm.recost (
    id         uuid           NOT NULL,
    at         timestamptz    NOT NULL,
    provider   text           NOT NULL,
    model      text           NOT NULL,
    -- The days whose requests were looked at, the last one not included.
    from_day   date           NOT NULL,
    to_day     date           NOT NULL,
    requests   bigint         NOT NULL,
    before     numeric(20,12) NOT NULL,
    after      numeric(20,12) NOT NULL,
    PRIMARY KEY (id, provider, model)
);
