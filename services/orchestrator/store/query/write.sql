-- What a group of events writes: one statement a table. Elements of arrays that stand for NULL are turned into it: the
-- zero UUID, the zero time of Go, 0 for payloads.

-- name: CommitAsync :exec
SET LOCAL synchronous_commit = off;

-- name: InsertRuns :exec
INSERT INTO core.pipeline_run (
    id, tenant, kind, pipeline, pipeline_version, pipeline_digest, steps_total, output_step, entity_id, document_id,
    callback_url, labels, input, input_payload, input_bytes, not_before, created_at, priority, budget_usd,
    class, status, state, current_step, steps_done, reason, error, undo, spend_epoch, seq, payloads, bytes,
    deadline_at, paused_at, cancel_requested_at, started_at, finished_at, concurrency_key, batch_id, custom_id, updated_at)
SELECT unnest(@ids::uuid[]), unnest(@tenants::text[]), unnest(@kinds::text[]), unnest(@pipelines::text[]),
       unnest(@pipeline_versions::text[]), unnest(@pipeline_digests::bytea[]), unnest(@steps_totals::integer[]),
       unnest(@output_steps::text[]), unnest(@entity_ids::text[]),
       NULLIF(unnest(@document_ids::uuid[]), '00000000-0000-0000-0000-000000000000'),
       unnest(@callback_urls::text[]), unnest(@labels::jsonb[]), unnest(@inputs::json[]),
       NULLIF(unnest(@input_payloads::integer[]), 0), unnest(@input_bytes::integer[]),
       NULLIF(unnest(@not_befores::timestamptz[]), '0001-01-01Z'), @now, unnest(@priorities::integer[]),
       NULLIF(unnest(@budgets_usd::numeric[]), -1),
       unnest(@classes::text[]), unnest(@statuses::text[]), unnest(@states::json[]), unnest(@current_steps::text[]),
       unnest(@steps_dones::integer[]), unnest(@reasons::text[]), unnest(@errors::text[]), NULLIF(unnest(@undos::text[]), ''),
       unnest(@spend_epochs::integer[]), unnest(@seqs::bigint[]), unnest(@payloads::integer[]), unnest(@bytes::bigint[]),
       unnest(@deadlines_at::timestamptz[]), NULLIF(unnest(@paused_at::timestamptz[]), '0001-01-01Z'),
       NULLIF(unnest(@cancels_requested_at::timestamptz[]), '0001-01-01Z'),
       NULLIF(unnest(@started_at::timestamptz[]), '0001-01-01Z'),
       NULLIF(unnest(@finished_at::timestamptz[]), '0001-01-01Z'), unnest(@concurrency_keys::text[]),
       NULLIF(unnest(@batch_ids::uuid[]), '00000000-0000-0000-0000-000000000000'), unnest(@custom_ids::text[]), @now;

-- name: UpdateRuns :exec
UPDATE core.pipeline_run r
SET class = u.class, status = u.status, state = u.state, current_step = u.current_step, steps_done = u.steps_done,
    reason = u.reason, error = u.error, undo = NULLIF(u.undo, ''), spend_epoch = u.spend_epoch,
    budget_usd = NULLIF(u.budget_usd, -1), cost_usd = u.cost_usd, cost_version = u.cost_version, seq = u.seq,
    payloads = u.payloads, bytes = u.bytes, deadline_at = u.deadline_at, paused_at = NULLIF(u.paused_at, '0001-01-01Z'),
    cancel_requested_at = NULLIF(u.cancel_requested_at, '0001-01-01Z'),
    started_at = NULLIF(u.started_at, '0001-01-01Z'), finished_at = NULLIF(u.finished_at, '0001-01-01Z'),
    version = r.version + 1, updated_at = @now
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@classes::text[]) AS class, unnest(@statuses::text[]) AS status,
             unnest(@states::json[]) AS state, unnest(@current_steps::text[]) AS current_step,
             unnest(@steps_dones::integer[]) AS steps_done, unnest(@reasons::text[]) AS reason,
             unnest(@errors::text[]) AS error, unnest(@undos::text[]) AS undo, unnest(@spend_epochs::integer[]) AS spend_epoch,
             unnest(@budgets_usd::numeric[]) AS budget_usd, unnest(@costs_usd::numeric[]) AS cost_usd,
             unnest(@cost_versions::bigint[]) AS cost_version,
             unnest(@seqs::bigint[]) AS seq, unnest(@payloads::integer[]) AS payloads, unnest(@bytes::bigint[]) AS bytes,
             unnest(@deadlines_at::timestamptz[]) AS deadline_at, unnest(@paused_at::timestamptz[]) AS paused_at,
             unnest(@cancels_requested_at::timestamptz[]) AS cancel_requested_at,
             unnest(@started_at::timestamptz[]) AS started_at, unnest(@finished_at::timestamptz[]) AS finished_at) u
WHERE r.id = u.id;

-- name: DropLive :exec
DELETE FROM core.step_live l
USING (SELECT unnest(@ordinals::integer[]) AS ordinal, unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step) d
WHERE l.run_id = d.run_id AND (d.step = '' OR l.step = d.step)
  AND NOT EXISTS (
    SELECT FROM (SELECT unnest(@kept_ordinals::integer[]) AS ordinal, unnest(@kept_steps::text[]) AS step,
                        unnest(@kept_shards::integer[]) AS shard) k
    WHERE k.ordinal = d.ordinal AND k.step = l.step AND k.shard = l.shard);

-- name: PromoteLive :exec
UPDATE core.step_live l
SET class = p.class, status = CASE l.status WHEN 'queued' THEN 'ready' ELSE l.status END
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@classes::text[]) AS class) p
WHERE l.run_id = p.run_id AND l.class <> p.class;

-- name: HoldLive :exec
UPDATE core.step_live l
SET held = h.held OR l.line <> '', paused = h.held
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@held::boolean[]) AS held) h
WHERE l.run_id = h.run_id AND (l.paused <> h.held OR l.held <> (h.held OR l.line <> ''));

-- name: InsertHolders :exec
INSERT INTO core.key_holder (run_id, tenant, pipeline, key)
SELECT unnest(@run_ids::uuid[]), unnest(@tenants::text[]), unnest(@pipelines::text[]), unnest(@keys::text[])
ON CONFLICT DO NOTHING;

-- name: DeleteHolders :exec
DELETE FROM core.key_holder WHERE run_id = ANY(@run_ids::uuid[]);

-- name: LeaveKeyLines :exec
-- The steps of runs that count against their keys from now on wait with the others.
UPDATE core.step_live l
SET line_key = '', line = CASE WHEN l.max_steps = 0 THEN '' ELSE l.line END, held = l.paused OR l.max_steps > 0
WHERE l.run_id = ANY(@run_ids::uuid[]) AND l.line_key <> '';

-- name: DeleteLive :exec
DELETE FROM core.step_live l
USING (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@shards::integer[]) AS shard) d
WHERE l.run_id = d.run_id AND l.step = d.step AND l.shard = d.shard;

-- name: InsertLive :exec
INSERT INTO core.step_live (
    run_id, step, shard, generation, tenant, item, item_payload, class, priority, begun,
    held, paused, line, line_key, max_steps, max_runs, counted,
    status, attempt, failures, losses, calls, ask_base, ambiguous_ok, unsure, claim_no, fence, last_fence, worker,
    reason, error, due_at, ready_at, queued_at, claimed_at)
SELECT unnest(@run_ids::uuid[]), unnest(@steps::text[]), unnest(@shards::integer[]), unnest(@generations::integer[]),
       unnest(@tenants::text[]), unnest(@items::json[]), NULLIF(unnest(@item_payloads::integer[]), 0),
       unnest(@classes::text[]), unnest(@priorities::integer[]), unnest(@begun::boolean[]),
       unnest(@held::boolean[]), unnest(@paused::boolean[]), unnest(@lines::text[]), unnest(@line_keys::text[]),
       unnest(@max_steps::integer[]), unnest(@max_runs::integer[]), unnest(@counted::boolean[]),
       unnest(@statuses::text[]), unnest(@attempts::integer[]), unnest(@failures::integer[]), unnest(@losses::integer[]),
       unnest(@calls::integer[]), unnest(@ask_bases::integer[]), unnest(@ambiguous_oks::integer[]), unnest(@unsure::boolean[]),
       unnest(@claim_nos::integer[]), NULLIF(unnest(@fences::uuid[]), '00000000-0000-0000-0000-000000000000'),
       NULLIF(unnest(@last_fences::uuid[]), '00000000-0000-0000-0000-000000000000'),
       NULLIF(unnest(@workers::uuid[]), '00000000-0000-0000-0000-000000000000'),
       unnest(@reasons::text[]), unnest(@errors::text[]), NULLIF(unnest(@due_at::timestamptz[]), '0001-01-01Z'),
       NULLIF(unnest(@ready_at::timestamptz[]), '0001-01-01Z'), NULLIF(unnest(@queued_at::timestamptz[]), '0001-01-01Z'),
       NULLIF(unnest(@claimed_at::timestamptz[]), '0001-01-01Z');

-- name: UpdateLive :exec
UPDATE core.step_live l
SET generation = u.generation, class = u.class, status = u.status, attempt = u.attempt, failures = u.failures,
    losses = u.losses, calls = u.calls, ask_base = u.ask_base, ambiguous_ok = u.ambiguous_ok, unsure = u.unsure,
    claim_no = u.claim_no, fence = NULLIF(u.fence, '00000000-0000-0000-0000-000000000000'),
    last_fence = NULLIF(u.last_fence, '00000000-0000-0000-0000-000000000000'),
    worker = NULLIF(u.worker, '00000000-0000-0000-0000-000000000000'), reason = u.reason, error = u.error,
    begun = u.begun, counted = CASE u.status WHEN 'queued' THEN u.counted ELSE l.counted END, due_at = NULLIF(u.due_at, '0001-01-01Z'), ready_at = NULLIF(u.ready_at, '0001-01-01Z'),
    queued_at = NULLIF(u.queued_at, '0001-01-01Z'), claimed_at = NULLIF(u.claimed_at, '0001-01-01Z')
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@shards::integer[]) AS shard,
             unnest(@generations::integer[]) AS generation, unnest(@classes::text[]) AS class,
             unnest(@statuses::text[]) AS status, unnest(@begun::boolean[]) AS begun,
             unnest(@counted::boolean[]) AS counted, unnest(@attempts::integer[]) AS attempt,
             unnest(@failures::integer[]) AS failures, unnest(@losses::integer[]) AS losses, unnest(@calls::integer[]) AS calls,
             unnest(@ask_bases::integer[]) AS ask_base, unnest(@ambiguous_oks::integer[]) AS ambiguous_ok,
             unnest(@unsure::boolean[]) AS unsure, unnest(@claim_nos::integer[]) AS claim_no,
             unnest(@fences::uuid[]) AS fence, unnest(@last_fences::uuid[]) AS last_fence, unnest(@workers::uuid[]) AS worker,
             unnest(@reasons::text[]) AS reason, unnest(@errors::text[]) AS error, unnest(@due_at::timestamptz[]) AS due_at,
             unnest(@ready_at::timestamptz[]) AS ready_at, unnest(@queued_at::timestamptz[]) AS queued_at,
             unnest(@claimed_at::timestamptz[]) AS claimed_at) u
WHERE l.run_id = u.run_id AND l.step = u.step AND l.shard = u.shard;

-- name: PutResults :exec
INSERT INTO core.pipeline_step_result AS r (
    run_id, step, shard, generation, status, attempt, output, output_payload, output_bytes,
    input_tokens, output_tokens, cost_usd, reason, error, fence, worker, claim_no, ask_base,
    queued_at, started_at, finished_at)
SELECT unnest(@run_ids::uuid[]), unnest(@steps::text[]), unnest(@shards::integer[]), unnest(@generations::integer[]),
       unnest(@statuses::text[]), unnest(@attempts::integer[]), unnest(@outputs::json[]),
       NULLIF(unnest(@output_payloads::integer[]), 0), unnest(@output_bytes::integer[]),
       unnest(@input_tokens::bigint[]), unnest(@output_tokens::bigint[]), unnest(@costs_usd::numeric[]),
       unnest(@reasons::text[]), unnest(@errors::text[]),
       NULLIF(unnest(@fences::uuid[]), '00000000-0000-0000-0000-000000000000'),
       NULLIF(unnest(@workers::uuid[]), '00000000-0000-0000-0000-000000000000'),
       unnest(@claim_nos::integer[]), unnest(@ask_bases::integer[]),
       NULLIF(unnest(@queued_at::timestamptz[]), '0001-01-01Z'), NULLIF(unnest(@started_at::timestamptz[]), '0001-01-01Z'), @now
ON CONFLICT (run_id, step, shard) DO UPDATE
SET generation = excluded.generation, status = excluded.status, attempt = excluded.attempt, output = excluded.output,
    output_payload = excluded.output_payload, output_bytes = excluded.output_bytes,
    input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, cost_usd = excluded.cost_usd,
    reason = excluded.reason, error = excluded.error, fence = excluded.fence, worker = excluded.worker,
    claim_no = excluded.claim_no, ask_base = excluded.ask_base,
    queued_at = excluded.queued_at, started_at = excluded.started_at, finished_at = excluded.finished_at;

-- name: ArchiveResults :exec
WITH replaced AS (
    DELETE FROM core.pipeline_step_result r
    USING (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step) a
    WHERE r.run_id = a.run_id AND r.step = a.step
    RETURNING r.*
)
INSERT INTO core.step_history (
    run_id, step, shard, generation, replaced_seq, replaced_at, status, attempt, output, output_payload, output_bytes,
    input_tokens, output_tokens, cost_usd, reason, error, fence, worker, claim_no, ask_base, queued_at, started_at, finished_at)
SELECT r.run_id, r.step, r.shard, r.generation, s.seq, @now, r.status, r.attempt, r.output, r.output_payload, r.output_bytes,
       r.input_tokens, r.output_tokens, r.cost_usd, r.reason, r.error, r.fence, r.worker, r.claim_no, r.ask_base,
       r.queued_at, r.started_at, r.finished_at
FROM replaced r
JOIN (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@seqs::bigint[]) AS seq) s
  ON s.run_id = r.run_id AND s.step = r.step;

-- name: InsertEvents :exec
INSERT INTO core.run_event (run_id, seq, at, actor, kind, step, shard, attempt, detail)
SELECT unnest(@run_ids::uuid[]), unnest(@seqs::bigint[]), @now, unnest(@actors::text[]), unnest(@kinds::text[]),
       unnest(@steps::text[]), unnest(@shards::integer[]), unnest(@attempts::integer[]), unnest(@details::json[]);

-- name: InsertPayloads :exec
INSERT INTO core.payload (run_id, n, bytes, content)
SELECT unnest(@run_ids::uuid[]), unnest(@numbers::integer[]), unnest(@bytes::integer[]), unnest(@contents::bytea[]);

-- name: InsertEffects :exec
INSERT INTO core.effect (run_id, step, shard, generation, key, state, begun_at)
SELECT unnest(@run_ids::uuid[]), unnest(@steps::text[]), unnest(@shards::integer[]), unnest(@generations::integer[]),
       unnest(@keys::text[]), 'begun', @now
ON CONFLICT DO NOTHING;

-- name: InsertCallbacks :exec
INSERT INTO core.callback_owed (subject_id, subject, seq, tenant, event, url, snapshot, owed_at)
SELECT unnest(@run_ids::uuid[]), 'run', unnest(@seqs::bigint[]), unnest(@tenants::text[]), unnest(@events::text[]),
       unnest(@urls::text[]), unnest(@snapshots::json[]), @now;

-- name: PutSpendGates :exec
INSERT INTO core.spend_gate_owed AS g (run_id, tenant, epoch, open, budget_usd, owed_at)
SELECT unnest(@run_ids::uuid[]), unnest(@tenants::text[]), unnest(@epochs::integer[]), unnest(@open::boolean[]),
       NULLIF(unnest(@budgets_usd::numeric[]), -1), @now
ON CONFLICT (run_id) DO UPDATE
SET epoch = excluded.epoch, open = excluded.open, budget_usd = excluded.budget_usd, owed_at = excluded.owed_at
WHERE excluded.epoch >= g.epoch;

-- name: PutCallCancels :exec
INSERT INTO core.call_cancel_owed (run_id, step, generation, owed_at)
SELECT DISTINCT c.run_id, c.step, c.generation, @now::timestamptz
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@generations::integer[]) AS generation) c
ON CONFLICT (run_id, step, generation) DO UPDATE SET owed_at = excluded.owed_at;

-- name: DropCallCancels :exec
DELETE FROM core.call_cancel_owed WHERE run_id = ANY(@run_ids::uuid[]) AND step = '';

-- name: InsertReviews :exec
INSERT INTO core.review (id, tenant, run_id, step, shard, generation, reason, detail, opened_at)
SELECT unnest(@ids::uuid[]), unnest(@tenants::text[]), unnest(@run_ids::uuid[]), unnest(@steps::text[]),
       unnest(@shards::integer[]), unnest(@generations::integer[]), unnest(@reasons::text[]), unnest(@details::text[]), @now;

-- name: ResolveReviews :exec
UPDATE core.review r
SET resolved_at = @now::timestamptz, resolved_by = c.actor, action = c.action, comment = c.comment
FROM (SELECT unnest(@ordinals::integer[]) AS ordinal, unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step,
             unnest(@shards::integer[]) AS shard, unnest(@whole::boolean[]) AS whole,
             unnest(@actors::text[]) AS actor, unnest(@actions::text[]) AS action, unnest(@comments::text[]) AS comment) c
WHERE r.run_id = c.run_id AND r.resolved_at IS NULL
  AND (c.step = '' OR (r.step = c.step AND (c.whole OR r.shard = c.shard)))
  AND NOT EXISTS (
    SELECT FROM (SELECT unnest(@kept_ordinals::integer[]) AS ordinal, unnest(@kept_steps::text[]) AS step,
                        unnest(@kept_shards::integer[]) AS shard) k
    WHERE k.ordinal = c.ordinal AND k.step = r.step AND k.shard = r.shard);

-- name: MarkCompensated :exec
UPDATE core.pipeline_step_result r
SET status = 'compensated'
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@steps::text[]) AS step, unnest(@shards::integer[]) AS shard) c
WHERE r.run_id = c.run_id AND r.step = c.step AND r.shard = c.shard;

-- name: LockOperatorActions :exec
SELECT pg_advisory_xact_lock(hashtext('core.operator_action'));

-- name: LastOperatorAction :one
SELECT coalesce(max(seq), 0)::bigint AS seq,
       coalesce((SELECT a.hash FROM core.operator_action a ORDER BY a.seq DESC LIMIT 1), '')::bytea AS hash
FROM core.operator_action;

-- name: InsertOperatorActions :exec
INSERT INTO core.operator_action (seq, at, tenant, actor, action, run_id, step, shard, reason, before, after, previous_hash, hash)
SELECT unnest(@seqs::bigint[]), @now, unnest(@tenants::text[]), unnest(@actors::text[]), unnest(@actions::text[]),
       unnest(@run_ids::uuid[]), unnest(@steps::text[]), unnest(@shards::integer[]), unnest(@reasons::text[]),
       unnest(@befores::json[]), unnest(@afters::json[]), unnest(@previous_hashes::bytea[]), unnest(@hashes::bytea[]);
