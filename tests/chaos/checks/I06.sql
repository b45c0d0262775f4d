-- no rerun without cause: each lease that ended otherwise than well, has its cause on record; no other runs
SELECT 'executions' AS label, count(*) AS number FROM chaos.ledger AS l WHERE l.what = 'begun'
UNION ALL
SELECT 'reruns', sum(r.number - 1) FROM (
    SELECT count(*) AS number FROM chaos.ledger AS l WHERE l.what = 'begun' GROUP BY l.task_id
) AS r
UNION ALL
SELECT 'cause: ' || coalesce(e.cause, 'NONE'), count(*) FROM chaos.ends_of_leases AS e WHERE e.cause IS DISTINCT FROM 'completed'
GROUP BY e.cause
ORDER BY 1;
SELECT e.task_id, format(
        'lease %s ended as %s, %s → %s, by %s (%s), and nothing says why', e.lease, e.holder, e.old_status, e.new_status, e.who, e.purpose
    ) AS what
FROM chaos.ends_of_leases AS e
WHERE e.cause IS NULL
UNION ALL
SELECT l.task_id, format('ran under lease %s, which nobody gave, and no crash forgot', l.lease)
FROM chaos.ledger AS l
WHERE l.what = 'begun'
    AND NOT EXISTS (SELECT FROM chaos.claims AS c WHERE c.task_id = l.task_id AND c.lease = l.lease)
    AND NOT EXISTS (
        SELECT FROM chaos.faults AS f
        WHERE f.kind IN ('server crashed', 'postmaster killed', 'backend killed')
            AND f.at BETWEEN l.at - interval '30 s' AND l.at + interval '5 s'
    );
