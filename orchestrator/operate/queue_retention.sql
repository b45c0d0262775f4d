-- How long a queue keeps what has ended. In: queue; keep_finished, keep_dead, NULL where it stays as it is; reason. Out:
-- one row: what holds now.
SELECT r.keep_finished, r.keep_dead
FROM orchestrator.set_retention(%(queue)s, %(keep_finished)s, %(keep_dead)s, %(reason)s) AS r
