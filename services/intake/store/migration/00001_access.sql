-- +goose Up

CREATE SCHEMA IF NOT EXISTS access;

-- Everything in the system belongs to a tenant; its id is part of every other service's rows.
CREATE TABLE access.tenant (
    id         text PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- An API key is pawl_<prefix>_<secret>. Only the SHA-256 of the whole is stored: with 256 random bits nothing slower is needed.
CREATE TABLE access.api_key (
    prefix       text PRIMARY KEY,
    hash         bytea NOT NULL CHECK (octet_length(hash) = 32),
    tenant       text NOT NULL REFERENCES access.tenant,
    role         text NOT NULL CHECK (role IN ('viewer', 'client', 'operator', 'admin')),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_key_tenant ON access.api_key (tenant);

-- Keys that all replicas of intake share, such as that of page tokens. The first replica that needs one makes it.
CREATE TABLE access.signing_key (
    purpose    text PRIMARY KEY,
    key        bytea NOT NULL CHECK (octet_length(key) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- +goose Down
DROP TABLE access.signing_key, access.api_key, access.tenant;
