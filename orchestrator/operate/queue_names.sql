-- The names a queue may have been mistaken for: of all that have a row. Bounded: more, nobody would compare.
SELECT q.name FROM orchestrator.queues AS q ORDER BY q.name LIMIT 10000
