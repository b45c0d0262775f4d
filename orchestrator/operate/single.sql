-- What is done to one task. To cancel one, see state.sql.

-- name: requeue
-- Run one task again. In: id, reason. Out: one row. The errors are those of orchestrator.requeue().
SELECT orchestrator.requeue(%(id)s, %(reason)s)

-- name: delete
-- Delete one task, in whichever leaf it is. In: id. Out: its id; no row if it does not exist. The transaction holds the
-- reason.
DELETE FROM orchestrator.tasks AS t
WHERE t.id = %(id)s
RETURNING t.id

-- name: priority
-- Change the priority of one task that waits. In: id, priority. Out: its id; no row if it does not exist or does not
-- wait.
UPDATE orchestrator.tasks AS t
SET priority = %(priority)s
WHERE t.id = %(id)s AND t.status IN ('scheduled', 'blocked', 'pending')
RETURNING t.id
