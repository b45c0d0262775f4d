-- Enqueue a set of tasks that differ only in their payloads, and have no keys. In: payloads, a JSON array of objects;
-- alike, the type and options of all, as the members of one object. Out: one id for each item, in order.
SELECT pg_catalog.unnest(orchestrator.enqueue_alike(CAST(%(payloads)s AS pg_catalog.jsonb), CAST(%(alike)s AS pg_catalog.jsonb)))
