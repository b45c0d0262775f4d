-- Mark that a worker sleeps for so many seconds (0: it is awake), so that producers ring it. Out: its id, if it has a
-- row.
WITH hint AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
)
UPDATE orchestrator.workers AS w
SET idle_until = orchestrator.clock() + make_interval(secs => %(seconds)s)
FROM hint
WHERE w.id = %(worker_id)s
RETURNING w.id
