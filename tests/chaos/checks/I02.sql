SELECT 'rolled back' AS label, count(*) AS number FROM chaos.journal AS j WHERE j.verdict = 'rolled back'
UNION ALL
SELECT 'executions looked up', count(*) FROM chaos.ledger AS l WHERE l.what = 'begun';
SELECT b.task_id, format('%s was rolled back, and is there', b.token) AS what
FROM chaos.births AS b
JOIN chaos.journal AS j ON j.token = b.token
WHERE j.verdict = 'rolled back'
UNION ALL
SELECT b.task_id, format('%s is there, and nobody enqueued it', b.token)
FROM chaos.births AS b
WHERE NOT EXISTS (SELECT FROM chaos.journal AS j WHERE j.token = b.token)
UNION ALL
SELECT b.task_id, format('%s was enqueued once and is there %s times', b.token, count(*) OVER (PARTITION BY b.token))
FROM chaos.births AS b
WHERE b.token IN (SELECT c.token FROM chaos.births AS c GROUP BY c.token HAVING count(*) > 1)
UNION ALL
SELECT l.task_id, format('%s ran, and there never was such a task', l.token)
FROM chaos.ledger AS l
WHERE l.what = 'begun'
    AND NOT EXISTS (SELECT FROM chaos.births AS b WHERE b.task_id = l.task_id AND b.token = l.token);
