-- Enqueue a set of any tasks. In: tasks, a JSON array of objects. Out: one row for each item, in order.
SELECT e.id, e.created
FROM orchestrator.enqueue_many(CAST(%(tasks)s AS pg_catalog.jsonb)) AS e
