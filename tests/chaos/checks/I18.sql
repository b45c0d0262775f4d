SELECT 'places compared' AS label, count(*) AS number FROM orchestrator.tasks
UNION ALL
SELECT 'of tasks that were placed again', count(*) FROM orchestrator.tasks AS t WHERE t.run_at > t.created_at;
SELECT t.id AS task_id, format('is at %s, and belongs at %s', t.position, p.position) AS what
FROM orchestrator.tasks AS t
CROSS JOIN LATERAL (
    SELECT (100 - t.priority) * t.aging_us + (date_part('epoch', t.run_at AT TIME ZONE 'UTC') * 1000000)::bigint AS position
) AS p
WHERE t.position <> p.position;
