-- Change the priority of one task that waits. In: id, priority. Out: its id; no row if it does not exist or does not
-- wait.
UPDATE orchestrator.tasks AS t
SET priority = %(priority)s
WHERE t.id = %(id)s AND t.status IN ('scheduled', 'blocked', 'pending')
RETURNING t.id
