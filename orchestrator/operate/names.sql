-- The names of queues and types that somebody has declared. Out: one row.
SELECT
    ARRAY(SELECT q.name FROM orchestrator.queues AS q ORDER BY q.name),
    ARRAY(SELECT t.name FROM orchestrator.types AS t ORDER BY t.name)
