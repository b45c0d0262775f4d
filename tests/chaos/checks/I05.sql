SELECT 'completions' AS label, count(*) AS number FROM chaos.steps AS s WHERE s.new_status = 'completed'
UNION ALL
SELECT 'manual requeues of ended tasks', count(*) FROM chaos.steps AS s
WHERE s.old_status IN ('completed', 'cancelled', 'dead_letter') AND s.new_status IS NOT NULL
UNION ALL
SELECT 'effects in the completing transaction', count(*) FROM chaos.effects
UNION ALL
SELECT 'transactional executions', count(*) FROM chaos.ledger AS l
JOIN chaos.births AS b ON b.task_id = l.task_id
WHERE l.what = 'begun' AND b.type LIKE 'chaos.book%';
WITH ended AS (
    SELECT s.task_id, s.old_status
    FROM chaos.steps AS s
    WHERE s.old_status IN ('completed', 'cancelled', 'dead_letter')
),
completed AS (
    SELECT s.task_id, s.old_lease AS lease, count(*) AS number
    FROM chaos.steps AS s
    JOIN chaos.births AS b ON b.task_id = s.task_id
    WHERE s.new_status = 'completed' AND b.type LIKE 'chaos.book%'
    GROUP BY 1, 2
),
effected AS (SELECT e.task_id, e.lease, count(*) AS number FROM chaos.effects AS e GROUP BY 1, 2)
SELECT e.task_id, format('left %s, and the audit has %s entries for %s', min(e.old_status), (
        SELECT count(*) FROM orchestrator.audit AS a WHERE a.task_id = e.task_id AND a.action IN ('requeue', 'delete')
    ), count(*)) AS what
FROM ended AS e
GROUP BY e.task_id
HAVING count(*) > (
    SELECT count(*) FROM orchestrator.audit AS a WHERE a.task_id = e.task_id AND a.action IN ('requeue', 'delete')
)
UNION ALL
SELECT coalesce(c.task_id, e.task_id), format(
        '%s completions and %s effects under lease %s', coalesce(c.number, 0), coalesce(e.number, 0), coalesce(c.lease, e.lease)
    )
FROM completed AS c
FULL JOIN effected AS e ON e.task_id = c.task_id AND e.lease = c.lease
WHERE coalesce(c.number, 0) <> 1 OR coalesce(e.number, 0) <> 1;
