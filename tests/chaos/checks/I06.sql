SELECT 'executions' AS label, count(*) AS number FROM chaos.ledger AS l WHERE l.what = 'begun'
UNION ALL
SELECT 'reruns', sum(r.number - 1) FROM (
    SELECT count(*) AS number FROM chaos.ledger AS l WHERE l.what = 'begun' GROUP BY l.task_id
) AS r
UNION ALL
SELECT 'cause: ' || coalesce(e.cause, 'NONE'), count(*) FROM chaos.ends_of_leases AS e WHERE e.cause IS DISTINCT FROM 'completed'
GROUP BY e.cause
UNION ALL
SELECT 'under a lease that no claim gave: excused by a crash', count(*) FROM chaos.orphans AS o WHERE o.is_excused
UNION ALL
SELECT '… whose worker was frozen then', count(*) FROM chaos.orphans AS o WHERE o.is_excused AND o.was_frozen
ORDER BY 1;
SELECT e.task_id, format(
        'lease %s ended as %s, %s → %s, by %s (%s), and nothing says why', e.lease, e.holder, e.old_status, e.new_status, e.who, e.purpose
    ) AS what
FROM chaos.ends_of_leases AS e
WHERE e.cause IS NULL
UNION ALL
SELECT o.task_id, format('ran under lease %s, which no claim gave, and no crash forgot', o.lease)
FROM chaos.orphans AS o
WHERE NOT o.is_excused
UNION ALL
-- An entry is durable before its handler goes on: there is no excuse.
SELECT e.task_id, format('was completed under lease %s, and never ran under it', e.lease)
FROM chaos.ends_of_leases AS e
WHERE e.new_status = 'completed'
    AND NOT EXISTS (
        SELECT FROM chaos.ledger AS l WHERE l.task_id = e.task_id AND l.lease = e.lease AND l.what = 'begun'
    );
