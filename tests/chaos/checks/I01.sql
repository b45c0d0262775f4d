SELECT j.verdict AS label, count(*) AS number FROM chaos.journal AS j GROUP BY 1
UNION ALL
SELECT 'acknowledged, now ' || coalesce(t.status, 'deleted'), count(*)
FROM chaos.journal AS j
LEFT JOIN chaos.births AS b ON b.token = j.token
LEFT JOIN orchestrator.tasks AS t ON t.id = coalesce(j.task_id, b.task_id)
WHERE j.verdict = 'acknowledged'
GROUP BY t.status
ORDER BY 1;
WITH promised AS (
    SELECT j.token, j.key, j.producer, coalesce(j.task_id, b.task_id) AS task_id, b.task_id AS born
    FROM chaos.journal AS j
    LEFT JOIN chaos.births AS b ON b.token = j.token
    WHERE j.verdict = 'acknowledged'
)
SELECT p.task_id, format('%s was acknowledged, and never was there', p.token) AS what
FROM promised AS p
WHERE p.task_id IS NULL OR NOT EXISTS (SELECT FROM chaos.births AS b WHERE b.task_id = p.task_id)
UNION ALL
SELECT p.task_id, format('%s was acknowledged as %s, and is another task', p.token, p.task_id)
FROM promised AS p
WHERE p.key IS NULL AND p.task_id <> p.born
UNION ALL
SELECT p.task_id, format('%s was acknowledged, and is gone', p.token)
FROM promised AS p
WHERE EXISTS (SELECT FROM chaos.births AS b WHERE b.task_id = p.task_id)
    AND NOT EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = p.task_id)
    AND NOT EXISTS (SELECT FROM orchestrator.audit AS a WHERE a.task_id = p.task_id AND a.action = 'delete');
