-- How many of our workers are in a state. In: pids. Out: one row. Locks: none.
-- name: serving
SELECT count(*) FROM orchestrator.workers AS w WHERE w.pid = ANY (%(pids)s) AND w.state = 'running'
-- name: resting
SELECT count(*) FROM orchestrator.workers AS w WHERE w.pid = ANY (%(pids)s) AND w.idle_until > orchestrator.clock()
