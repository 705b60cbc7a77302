-- Questions that belong to no run: those of the OpenAI-compatible endpoint.

-- +goose Up

-- Which scope an idempotency key of such a question stands for. The question's calls have the scope in their run_id.
CREATE TABLE llm.scope (
    tenant         text        NOT NULL,
    key            text        NOT NULL,
    -- UUID v7 of its first request.
    scope_id       uuid        NOT NULL,
    -- SHA-256 of what was asked: another question under the same key is refused.
    request_digest bytea       NOT NULL CHECK (length(request_digest) = 32),
    -- From then on the key is free again.
    expires_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX scope_expires ON llm.scope (expires_at);

-- Whether the purse is that of a scope and not of a run: then no orchestrator is told what was spent.
ALTER TABLE llm.run_spend ADD COLUMN outside boolean NOT NULL DEFAULT false;
