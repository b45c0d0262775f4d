-- The id of a dead letter, for a statement to show: the oldest. Out: no row or one.
SELECT d.id
FROM orchestrator.dead_letters AS d
ORDER BY d.id
LIMIT 1
