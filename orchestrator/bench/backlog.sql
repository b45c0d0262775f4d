-- Backlogs in the scratch database. The bench alone uses that database, so its locks do not matter.
-- name: clear
TRUNCATE orchestrator.tasks, orchestrator.attempts, orchestrator.audit
-- name: pause
INSERT INTO orchestrator.queues AS q (name, state) SELECT unnest(%(queues)s::text[]), 'paused'
ON CONFLICT (name) DO UPDATE SET state = 'paused'
-- name: resume
SELECT orchestrator.resume_queue(name) FROM unnest(%(queues)s::text[]) AS name
-- name: fill
-- Complete rows into the leaf, like our own bulk path: no trigger fires, and no worker is woken.
INSERT INTO orchestrator.tasks_live (
    id, type, payload, queue, priority, max_attempts, timeout, run_at, aging_us, position, status
)
SELECT
    nextval('orchestrator.tasks_id_seq'), %(type)s, %(payload)s::jsonb, (%(queues)s::text[])[1 + n %% cardinality(%(queues)s::text[])],
    p.priority, 4, interval '300 seconds', p.run_at, 31557600000000000,
    orchestrator.position_of(p.run_at, 31557600000000000, p.priority),
    CASE WHEN %(ahead)s > 0 THEN 'scheduled' ELSE 'pending' END
FROM generate_series(1, %(tasks)s) AS n
CROSS JOIN LATERAL (
    SELECT
        (%(priorities)s::smallint[])[1 + n %% cardinality(%(priorities)s::smallint[])] AS priority,
        orchestrator.clock() + %(ahead)s * interval '1 second' AS run_at
) AS p
-- name: fill_finished
INSERT INTO orchestrator.tasks_done (
    id, type, payload, queue, priority, max_attempts, timeout, run_at, aging_us, position, status, attempt, lease,
    worker_id, claimed_at, started_at, finished_at
)
SELECT
    nextval('orchestrator.tasks_id_seq'), %(type)s, '{}', 'default', 50, 4, interval '300 seconds', at, 31557600000000000,
    orchestrator.position_of(at, 31557600000000000, 50), 'completed', 1, n, gen_random_uuid(),
    at, at, at
FROM generate_series(1, %(tasks)s) AS n, orchestrator.clock() AS at
-- name: vacuum
VACUUM (ANALYZE) orchestrator.tasks_live
-- name: vacuum_all
VACUUM (ANALYZE) orchestrator.tasks
-- name: bounds
-- Of the first tasks in the order of execution: the smallest id, and the last task's id and position.
SELECT min(t.id), (array_agg(t.id ORDER BY t.position DESC, t.id DESC))[1], max(t.position)
FROM (
    SELECT t.id, t.position FROM orchestrator.tasks_live AS t
    WHERE t.queue = ANY (%(queues)s) AND t.status = 'pending'
    ORDER BY t.position, t.id
    LIMIT %(tasks)s
) AS t
-- name: is_there
SELECT EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.id = %(id)s)
-- name: is_before
SELECT EXISTS (
    SELECT FROM orchestrator.tasks_live AS t
    WHERE t.queue = ANY (%(queues)s) AND t.status IN ('pending', 'claimed', 'running')
        AND (t.position, t.id) <= (%(position)s, %(id)s)
)
-- name: window
-- From the first claim to the last finish. Both are the times when the statement arrived at the server.
SELECT count(*), extract(epoch FROM max(t.finished_at) - min(t.claimed_at))::float8
FROM orchestrator.tasks_done AS t
WHERE t.id >= %(first)s AND t.queue = ANY (%(queues)s) AND t.status = 'completed'
-- name: held
SELECT count(*)::integer FROM orchestrator.tasks_live AS t
WHERE t.queue = %(queue)s AND t.status IN ('claimed', 'running')
-- name: left
SELECT count(*)::integer FROM orchestrator.tasks_live AS t
WHERE t.queue = ANY (%(queues)s) AND t.status IN ('pending', 'claimed', 'running')
