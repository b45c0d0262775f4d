-- name: one
-- Enqueue one task without a key. In: all parameters as text, or NULL for an option that is left out. Out: its id.
SELECT orchestrator.enqueue(
    CAST(%(type)s AS pg_catalog.text),
    CAST(%(payload)s AS pg_catalog.jsonb),
    -- generated: sent arguments
    queue => CAST(%(queue)s AS pg_catalog.text),
    priority => CAST(CAST(%(priority)s AS pg_catalog.text) AS integer),
    run_at => CAST(CAST(%(run_at)s AS pg_catalog.text) AS pg_catalog.timestamptz),
    delay => CAST(CAST(%(delay)s AS pg_catalog.text) AS interval),
    max_attempts => CAST(CAST(%(max_attempts)s AS pg_catalog.text) AS integer),
    timeout => CAST(CAST(%(timeout)s AS pg_catalog.text) AS interval)
    -- end
)

-- name: alike
-- Enqueue a set of tasks that differ only in their payloads, and have no keys. In: payloads, a JSON array of objects;
-- alike, the type and options of all, as the members of one object. Out: one id for each item, in order.
SELECT pg_catalog.unnest(orchestrator.enqueue_alike(CAST(%(payloads)s AS pg_catalog.jsonb), CAST(%(alike)s AS pg_catalog.jsonb)))

-- name: many
-- Enqueue a set of any tasks. In: tasks, a JSON array of objects. Out: one row for each item, in order.
SELECT e.id, e.created
FROM orchestrator.enqueue_many(CAST(%(tasks)s AS pg_catalog.jsonb)) AS e
