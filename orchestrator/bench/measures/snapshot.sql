-- A snapshot, and a load of tasks. Locks: no other session waits for them.
-- name: begin
BEGIN ISOLATION LEVEL REPEATABLE READ
-- name: look
SELECT count(*) FROM orchestrator.queues
-- name: end
ROLLBACK
-- name: load
-- Into the root, so that the triggers wake idle workers. The rows are complete, so the triggers do little else.
INSERT INTO orchestrator.tasks (
    id, type, payload, queue, priority, max_attempts, timeout, run_at, aging_us, status
)
SELECT
    nextval('orchestrator.tasks_id_seq'), %(type)s, '{}', 'default', (%(priorities)s::smallint[])[1 + n %% cardinality(%(priorities)s::smallint[])],
    4, interval '300 seconds', orchestrator.clock(), 31557600000000000, 'pending'
FROM generate_series(1, %(tasks)s) AS n
