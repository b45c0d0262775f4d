-- The results of the tasks. Out: one row per type: how many by status, and how many failed attempts.
SELECT
    t.type,
    count(*) AS tasks,
    count(*) FILTER (WHERE t.status = 'completed') AS completed,
    count(*) FILTER (WHERE t.status = 'dead_letter') AS dead_letters,
    count(*) FILTER (WHERE t.status NOT IN ('completed', 'dead_letter')) AS others,
    (SELECT count(*) FROM orchestrator.attempts AS a WHERE a.type = t.type AND a.outcome NOT IN ('released', 'snoozed')) AS failed_attempts
FROM orchestrator.tasks AS t
GROUP BY t.type
