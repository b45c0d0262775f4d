-- The table and the statements of the floors. Locks: only the floor's own rows. Path: floor_claim_idx, floor_pkey.
-- name: table
CREATE TABLE public.floor (
    id bigserial PRIMARY KEY,
    lease bigint,
    run_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    claimed_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    timeout interval NOT NULL DEFAULT '300 seconds',
    worker_id uuid,
    priority smallint NOT NULL DEFAULT 50,
    attempt smallint NOT NULL DEFAULT 0,
    max_attempts smallint NOT NULL DEFAULT 4,
    losses smallint NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'pending',
    queue text NOT NULL,
    type text NOT NULL,
    payload jsonb NOT NULL,
    idempotency_key text,
    result jsonb,
    error jsonb,
    progress jsonb,
    tags text[],
    metadata jsonb,
    trace_context jsonb
)
-- name: index
CREATE INDEX floor_claim_idx ON public.floor (queue, priority, run_at, id) WHERE status = 'pending'
-- name: clear
TRUNCATE public.floor
-- name: fill
INSERT INTO public.floor (queue, type, payload)
SELECT 'default', 'nothing', %(payload)s::jsonb FROM generate_series(1, %(tasks)s) AS n
-- name: vacuum
VACUUM (ANALYZE) public.floor
-- name: claim
UPDATE public.floor
SET status = 'claimed', lease = %(lease)s, worker_id = %(worker_id)s,
    claimed_at = statement_timestamp(), attempt = attempt + 1
WHERE id = ANY (ARRAY(
    SELECT f.id
    FROM public.floor AS f
    WHERE f.queue = 'default' AND f.status = 'pending'
    ORDER BY f.priority, f.run_at, f.id
    LIMIT %(batch_size)s
    FOR UPDATE SKIP LOCKED
))
RETURNING id, type, attempt, max_attempts, payload::text
-- name: finish
UPDATE public.floor SET status = 'completed', finished_at = statement_timestamp()
WHERE id = ANY (%(ids)s) AND lease = %(lease)s
-- name: window
SELECT count(*), extract(epoch FROM max(finished_at) - min(claimed_at))::float8 FROM public.floor WHERE status = 'completed'
-- name: insert
INSERT INTO public.floor (queue, type, payload) VALUES ('default', %(type)s, %(payload)s::jsonb)
-- name: copy
COPY public.floor (queue, type, payload) FROM STDIN
-- name: call
WITH new AS (
    INSERT INTO public.floor (queue, type, payload) VALUES ('default', %(type)s, %(payload)s::jsonb)
    RETURNING id
)
SELECT id, pg_notify('floor', '') FROM new
-- name: no_disk_wait
SET synchronous_commit = off
-- name: listen
LISTEN floor
-- name: stamp
UPDATE public.floor SET status = 'completed', finished_at = statement_timestamp(), result = to_jsonb(%(at)s::bigint)
WHERE id = %(id)s AND lease = %(lease)s
-- name: stamps
SELECT id, result::bigint FROM public.floor WHERE status = 'completed'
