-- Delete one task, in whichever leaf it is. In: id. Out: its id; no row if it does not exist. The transaction holds the
-- reason.
DELETE FROM orchestrator.tasks AS t
WHERE t.id = %(id)s
RETURNING t.id
