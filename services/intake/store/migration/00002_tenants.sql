-- +goose Up

-- What a tenant may use. A limit that is NULL is that of the configuration.
ALTER TABLE access.tenant
    ADD COLUMN weight               integer NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    ADD COLUMN submit_rate          integer CHECK (submit_rate > 0),
    ADD COLUMN submit_burst         integer CHECK (submit_burst > 0),
    ADD COLUMN max_queued_runs      bigint CHECK (max_queued_runs > 0),
    ADD COLUMN max_concurrent_steps integer CHECK (max_concurrent_steps > 0),
    ADD COLUMN disabled             boolean NOT NULL DEFAULT false,
    -- Grows with every change. What the orchestrator must know of it is sent until this version is confirmed.
    ADD COLUMN version              bigint NOT NULL DEFAULT 1,
    ADD COLUMN policy_confirmed_version bigint NOT NULL DEFAULT 0,
    ADD COLUMN updated_at           timestamptz NOT NULL DEFAULT clock_timestamp();
CREATE INDEX tenant_policy_owed ON access.tenant (id) WHERE policy_confirmed_version < version;

ALTER TABLE access.api_key
    ADD COLUMN note       text NOT NULL DEFAULT '',
    ADD COLUMN created_by text NOT NULL DEFAULT '';

-- What administrators did, written with what they changed. Secrets and hashes are never part of it.
CREATE TABLE access.admin_action (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor  text NOT NULL,
    action text NOT NULL CHECK (action IN ('create_tenant', 'update_tenant', 'create_key', 'revoke_key', 'rotate_key')),
    tenant text NOT NULL,
    before json,
    after  json,
    reason text NOT NULL DEFAULT ''
);
CREATE INDEX admin_action_tenant ON access.admin_action (tenant, id);

-- +goose Down
DROP TABLE access.admin_action;
ALTER TABLE access.api_key DROP COLUMN created_by, DROP COLUMN note;
DROP INDEX access.tenant_policy_owed;
ALTER TABLE access.tenant
    DROP COLUMN updated_at, DROP COLUMN policy_confirmed_version, DROP COLUMN version, DROP COLUMN disabled,
    DROP COLUMN max_concurrent_steps, DROP COLUMN max_queued_runs, DROP COLUMN submit_burst, DROP COLUMN submit_rate,
    DROP COLUMN weight;
