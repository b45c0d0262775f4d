-- Is a task still held under a lease? Asked after the answer to a COMMIT that would have completed the task was lost.
-- In: task_id, lease. Out: a row if the task is held: then that transaction is over, and was rolled back. Until it is
-- over, its DELETE has the row locked, and this statement waits: so a commit on its way does not look like a failed
-- one. recorded.sql is asked after this, as a statement with its own snapshot.
-- Locks: the row, until the end of the statement. Path: tasks_live_pkey.
SELECT t.id
FROM orchestrator.tasks_live AS t
WHERE t.id = %(task_id)s AND t.lease = %(lease)s
FOR UPDATE
