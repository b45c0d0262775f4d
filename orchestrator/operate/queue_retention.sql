-- Set how long a queue keeps its ended tasks. In: queue; keep_finished, keep_dead (NULL: unchanged); reason. Out: one
-- row: the new values.
SELECT r.keep_finished, r.keep_dead
FROM orchestrator.set_retention(%(queue)s, %(keep_finished)s, %(keep_dead)s, %(reason)s) AS r
