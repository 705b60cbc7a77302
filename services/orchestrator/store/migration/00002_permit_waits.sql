-- What runners tell in their heartbeats of steps that wait for a permit of a limit: a list of step, limit and how long it had
-- waited then. It belongs to the runner and is as old as its heartbeat; the steps' own rows are not written for it.

-- +goose Up
ALTER TABLE core.runner ADD COLUMN permit_waits json NOT NULL DEFAULT '[]';
