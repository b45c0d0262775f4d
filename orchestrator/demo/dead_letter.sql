-- The id of the oldest dead letter, for the suggested statements. Out: no row or one.
SELECT d.id
FROM orchestrator.dead_letters AS d
ORDER BY d.id
LIMIT 1
