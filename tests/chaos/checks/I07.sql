SELECT 'tasks, now ' || t.status AS label, count(*) AS number FROM orchestrator.tasks AS t GROUP BY t.status
UNION ALL
SELECT 'processes ended', count(*) FROM chaos.ends
UNION ALL
SELECT 'could not start: the server was away', count(*) FROM chaos.ends AS e
WHERE NOT e.expected AND e.status = 1
    AND NOT EXISTS (SELECT FROM chaos.worker_events AS t WHERE t.who = e.who AND t.event = 'worker started')
UNION ALL
SELECT 'told to stop, and could not write all', count(*) FROM chaos.ends AS e
WHERE e.expected AND e.status = 1
ORDER BY 1;
SELECT t.id AS task_id, format('is %s after the drain', t.status) AS what
FROM orchestrator.tasks_live AS t
UNION ALL
SELECT NULL, format('%s ended by itself with status %s', e.who, e.status)
FROM chaos.ends AS e
WHERE NOT e.expected
    AND NOT (
        e.status = 1 AND NOT EXISTS (SELECT FROM chaos.worker_events AS t WHERE t.who = e.who AND t.event = 'worker started')
    )
    AND NOT (e.status = -9 AND EXISTS (
        SELECT FROM chaos.ledger AS l
        JOIN chaos.births AS b ON b.task_id = l.task_id
        WHERE l.who = e.who AND l.what = 'begun' AND b.type = 'chaos.poison'
    ));
