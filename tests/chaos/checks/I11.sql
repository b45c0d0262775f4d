SELECT 'keys' AS label, count(DISTINCT (j.type, j.key)) AS number FROM chaos.journal AS j WHERE j.key IS NOT NULL
UNION ALL
SELECT 'enqueued with a key', count(*) FROM chaos.journal AS j WHERE j.key IS NOT NULL
UNION ALL
SELECT 'of these, got another''s task', count(*) FROM chaos.journal AS j
JOIN chaos.births AS b ON b.task_id = j.task_id WHERE j.key IS NOT NULL AND b.token <> j.token;
SELECT min(b.task_id) AS task_id, format('%s tasks had key %s of %s', count(*), b.key, b.type) AS what
FROM chaos.births AS b
WHERE b.key IS NOT NULL
GROUP BY b.type, b.key
HAVING count(*) > 1 + (
    SELECT count(*) FROM chaos.births AS g
    WHERE g.type = b.type AND g.key = b.key
        AND (
            EXISTS (SELECT FROM orchestrator.audit AS a WHERE a.task_id = g.task_id AND a.action = 'delete')
            OR EXISTS (SELECT FROM chaos.steps AS s WHERE s.task_id = g.task_id AND s.new_status = 'cancelled')
        )
)
UNION ALL
SELECT j.task_id, format('%s asked for key %s, and got a task with key %s', j.token, j.key, b.key)
FROM chaos.journal AS j
JOIN chaos.births AS b ON b.task_id = j.task_id
WHERE j.key IS NOT NULL AND (j.key, j.type) IS DISTINCT FROM (b.key, b.type);
