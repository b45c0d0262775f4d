-- The names of the declared queues and types. Out: one row.
SELECT
    ARRAY(SELECT q.name FROM orchestrator.queues AS q ORDER BY q.name),
    ARRAY(SELECT t.name FROM orchestrator.types AS t ORDER BY t.name)
