-- Whether a task is still held under a lease, after the answer to a COMMIT was lost that would have completed it.
-- In: task_id, lease. Out: a row if it is: then that transaction is over, and was rolled back. While it is not over yet,
-- its DELETE has the row locked, and this waits: so a commit that is on its way is not taken for one that failed.
-- What recorded.sql sees is asked after this, by a statement with a snapshot of its own.
-- Locks: the row, until the end of the statement. Path: tasks_live_pkey.
SELECT t.id
FROM orchestrator.tasks_live AS t
WHERE t.id = %(task_id)s AND t.lease = %(lease)s
FOR UPDATE
