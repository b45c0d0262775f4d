-- A worker lives. Out: one row, unless it was declared dead; then none, and it has lost every lease.
-- Locks: its own row. Never touches tasks.
WITH hint AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
)
UPDATE orchestrator.workers AS w
SET beat_at = orchestrator.clock(), state = %(state)s
FROM hint
WHERE w.id = %(id)s AND w.state IN ('running', 'draining')
RETURNING w.id
