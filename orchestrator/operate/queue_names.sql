-- The names of the queues that have a row, to suggest one for a mistyped name. Bounded, so that the comparison is
-- cheap.
SELECT q.name FROM orchestrator.queues AS q ORDER BY q.name LIMIT 10000
