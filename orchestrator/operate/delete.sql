-- Delete one task, wherever it lies. In: id. Out: its id; no row: there is none. The reason is the transaction's.
DELETE FROM orchestrator.tasks AS t
WHERE t.id = %(id)s
RETURNING t.id
