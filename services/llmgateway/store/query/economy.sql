-- name: InsertItems :exec
INSERT INTO llm.economy_item (
    run_id, call_key, try_no, custom_id, step, shard, generation, provider, model, body, state, live_by, added_at)
SELECT u.run_id, u.call_key, u.try_no, u.custom_id, u.step, u.shard, u.generation, u.provider, u.model, u.body, 'waiting',
       (sqlc.arg(now)::timestamptz) + u.live_in, sqlc.arg(now)
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key, unnest(@try_nos::integer[]) AS try_no,
             unnest(@custom_ids::text[]) AS custom_id, unnest(@steps::text[]) AS step, unnest(@shards::integer[]) AS shard,
             unnest(@generations::integer[]) AS generation, unnest(@providers::text[]) AS provider,
             unnest(@models::text[]) AS model, unnest(@bodies::bytea[]) AS body, unnest(@live_ins::interval[]) AS live_in) u;

-- name: FindGathered :many
-- The kinds of items of which enough wait, or for long enough.
SELECT provider, model
FROM llm.economy_item
WHERE state = 'waiting'
GROUP BY provider, model
HAVING min(added_at) < clock_timestamp() - @age::interval OR count(*) >= @most::integer;

-- name: LockWaiting :many
SELECT run_id, call_key, try_no, custom_id, octet_length(body)::bigint AS size
FROM llm.economy_item
WHERE state = 'waiting' AND provider = @provider AND model = @model AND live_by > clock_timestamp()
ORDER BY added_at
LIMIT @most FOR UPDATE SKIP LOCKED;

-- name: InsertJob :exec
INSERT INTO llm.economy_job (id, provider, model, state, holder, items, created_at, look_at)
SELECT @id, @provider, @model, 'preparing', @holder, @items, clock_timestamp(), clock_timestamp();

-- name: AttachItems :exec
UPDATE llm.economy_item i SET state = 'sent', job_id = @job_id
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key, unnest(@try_nos::integer[]) AS try_no) k
WHERE i.run_id = k.run_id AND i.call_key = k.call_key AND i.try_no = k.try_no;

-- name: DetachItems :exec
-- Of a job that never reached its provider: its items wait again.
UPDATE llm.economy_item SET state = 'waiting', job_id = NULL WHERE job_id = @job_id AND state = 'sent';

-- name: AdoptJobs :many
-- Jobs whose preparation nobody has in hand any more: the holder's own, who has given up on them, and those of the dead.
UPDATE llm.economy_job j SET holder = @holder
WHERE j.state = 'preparing' AND j.created_at < clock_timestamp() - @age::interval
  AND (j.holder = @holder
       OR NOT EXISTS (SELECT FROM llm.replica r WHERE r.holder = j.holder AND r.lease_until > clock_timestamp()))
RETURNING j.id, j.provider, j.model, j.state, j.provider_job, j.items, j.created_at;

-- name: NoteSent :execrows
UPDATE llm.economy_job SET state = 'sent', provider_job = @provider_job, look_at = clock_timestamp() + @look_in::interval
WHERE id = @id AND state = 'preparing';

-- name: NoteCancelling :exec
UPDATE llm.economy_job SET state = 'cancelling' WHERE id = @id AND state = 'sent';

-- name: DueJobs :many
-- Each job is due for one gateway at a time.
UPDATE llm.economy_job j SET look_at = clock_timestamp() + @look_in::interval
WHERE j.state <> 'preparing' AND j.look_at <= clock_timestamp()
RETURNING j.id, j.provider, j.model, j.state, j.provider_job, j.items, j.created_at;

-- name: DeleteJob :exec
DELETE FROM llm.economy_job WHERE id = @id;

-- name: KnownJobs :many
SELECT provider_job FROM llm.economy_job WHERE provider = @provider AND provider_job <> '';

-- name: ListItems :many
SELECT run_id, call_key, try_no, custom_id, body FROM llm.economy_item WHERE job_id = @job_id AND state = 'sent'
ORDER BY custom_id;

-- name: NameItems :many
-- The same without their bodies.
SELECT run_id, call_key, try_no, custom_id FROM llm.economy_item WHERE job_id = @job_id AND state = 'sent';

-- name: FinishItems :exec
UPDATE llm.economy_item i SET state = 'done', body = '', tell_at = clock_timestamp()
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key, unnest(@try_nos::integer[]) AS try_no) k
WHERE i.run_id = k.run_id AND i.call_key = k.call_key AND i.try_no = k.try_no AND i.state <> 'done';

-- name: WithdrawRest :exec
-- What a batch that has ended did not answer.
UPDATE llm.economy_item SET state = 'withdrawn', body = '' WHERE job_id = @job_id AND state = 'sent';

-- name: WithdrawWaiting :exec
-- What has waited for too long, and what was cancelled.
UPDATE llm.economy_item i SET state = 'withdrawn', body = ''
WHERE i.state = 'waiting' AND (
    i.live_by <= clock_timestamp()
    OR EXISTS (SELECT FROM llm.run_spend s WHERE s.run_id = i.run_id AND s.closed_at > i.added_at)
    OR EXISTS (
        SELECT FROM llm.cancelled_step x
        WHERE x.run_id = i.run_id AND x.step = i.step AND x.generation = i.generation AND x.at > i.added_at
    ));

-- name: FindLate :many
-- Jobs that are to be stopped: somebody needs an answer in the usual way, or nobody needs any.
SELECT j.id, j.provider, j.model, j.state, j.provider_job, j.items, j.created_at
FROM llm.economy_job j
WHERE j.state = 'sent' AND (
    EXISTS (SELECT FROM llm.economy_item i WHERE i.job_id = j.id AND i.state = 'sent' AND i.live_by <= clock_timestamp())
    OR NOT EXISTS (
        SELECT FROM llm.economy_item i
        WHERE i.job_id = j.id AND i.state = 'sent'
          AND NOT EXISTS (SELECT FROM llm.run_spend s WHERE s.run_id = i.run_id AND s.closed_at > i.added_at)
          AND NOT EXISTS (
              SELECT FROM llm.cancelled_step x
              WHERE x.run_id = i.run_id AND x.step = i.step AND x.generation = i.generation AND x.at > i.added_at
          )));

-- name: FindWithdrawn :many
SELECT run_id, call_key, try_no FROM llm.economy_item WHERE state = 'withdrawn' ORDER BY added_at LIMIT @most;

-- name: TakeTellings :many
-- Each is told by one gateway at a time.
UPDATE llm.economy_item i SET tell_at = clock_timestamp() + @again_in::interval
FROM (
    SELECT d.run_id, d.call_key, d.try_no FROM llm.economy_item d
    WHERE d.state = 'done' AND d.tell_at <= clock_timestamp() ORDER BY d.tell_at LIMIT @most FOR UPDATE SKIP LOCKED
) k
WHERE i.run_id = k.run_id AND i.call_key = k.call_key AND i.try_no = k.try_no
RETURNING i.run_id, i.call_key, i.try_no, i.step, i.shard, i.generation;

-- name: NoteTold :exec
UPDATE llm.economy_item i SET told = i.told + 1
FROM (SELECT unnest(@run_ids::uuid[]) AS run_id, unnest(@call_keys::bytea[]) AS call_key, unnest(@try_nos::integer[]) AS try_no) k
WHERE i.run_id = k.run_id AND i.call_key = k.call_key AND i.try_no = k.try_no;

-- name: ForgetItems :exec
DELETE FROM llm.economy_item WHERE state = 'done' AND told >= @times::integer;

-- name: CountLane :many
SELECT provider, state, count(*)::bigint AS items FROM llm.economy_item GROUP BY provider, state;
