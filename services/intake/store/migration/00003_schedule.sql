-- +goose Up

-- Runs that are started at times that repeat. A row is taken by the replica that starts its run; one that dies then leaves it to
-- others when taken_until has passed, who start the same run: its idempotency key is that of the schedule and the time.
CREATE TABLE access.schedule (
    tenant       text        NOT NULL,
    name         text        NOT NULL,
    -- In the keys of its runs, so that a schedule that is deleted and made anew has runs of its own.
    id           uuid        NOT NULL,
    cron         text        NOT NULL,
    time_zone    text        NOT NULL,
    overlap      text        NOT NULL CHECK (overlap IN ('skip', 'allow', 'cancel')),
    catch_up     interval    NOT NULL,
    -- pawl.v1.CreateRunRequest.
    run          bytea       NOT NULL,
    created_by   text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused       boolean     NOT NULL DEFAULT false,
    next_at      timestamptz NOT NULL,
    taken_until  timestamptz NOT NULL DEFAULT 'epoch',
    last_at      timestamptz,
    last_run_id  uuid,
    last_problem text        NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, name)
);
CREATE INDEX schedule_due ON access.schedule (next_at) WHERE NOT paused;

-- +goose Down
DROP TABLE access.schedule;
