-- Backlogs in the scratch database: made, let go, watched. Everything here is the bench's own, so locks matter to nobody.
-- name: shut
INSERT INTO orchestrator.queues AS q (name, state) VALUES (%(queue)s, 'paused')
ON CONFLICT (name) DO UPDATE SET state = 'paused'
-- name: open
SELECT orchestrator.resume_queue(%(queue)s)
-- name: clear
TRUNCATE orchestrator.tasks, orchestrator.attempts, orchestrator.audit
-- name: fill
-- Complete rows, as our own bulk path sends them, and into the leaf: no trigger fires, and nobody is rung. The
-- priorities take turns. `ahead`: seconds until they are due; the finished ones of all days lie in today's leaf.
INSERT INTO orchestrator.tasks_live (
    type, payload, queue, priority, max_attempts, timeout, run_at, aging_us, status
)
SELECT
    %(type)s, %(payload)s::jsonb, %(queue)s, (%(priorities)s::smallint[])[1 + n %% cardinality(%(priorities)s::smallint[])],
    4, interval '300 seconds', orchestrator.clock() + %(ahead)s * interval '1 second', 31557600000000000,
    CASE WHEN %(ahead)s > 0 THEN 'scheduled' ELSE 'pending' END
FROM generate_series(1, %(tasks)s) AS n
-- name: settle
VACUUM (ANALYZE) orchestrator.tasks_live
-- name: last
-- The task that will be claimed as the last of the first so many.
SELECT t.id FROM orchestrator.tasks_live AS t
WHERE t.queue = %(queue)s AND t.status = 'pending'
ORDER BY t.position, t.id
OFFSET %(offset)s LIMIT 1
-- name: is_there
SELECT EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.id = %(id)s)
-- name: is_before
SELECT EXISTS (
    SELECT FROM orchestrator.tasks_live AS t
    WHERE t.queue = %(queue)s AND t.status IN ('pending', 'claimed', 'running') AND t.id <= %(id)s
)
-- name: window
-- From the first claim to the last finish: both are the moments when the statement arrived at the server.
SELECT count(*), extract(epoch FROM max(t.finished_at) - min(t.claimed_at))::float8
FROM orchestrator.tasks_done AS t
WHERE t.queue = %(queue)s AND t.status = 'completed' AND t.claimed_at IS NOT NULL
