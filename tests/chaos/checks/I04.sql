-- fenced: no outcome is accepted but under the lease it was made under, and from its holder
SELECT 'outcomes written by workers' AS label, count(*) AS number
FROM chaos.ends_of_leases AS e WHERE e.purpose IN ('orchestrator outcomes', 'orchestrator transactions')
UNION ALL
SELECT 'handlers that returned after their lease was taken', count(*)
FROM chaos.ledger AS l
WHERE l.what = 'ended' AND l.how = 'returned'
    AND NOT EXISTS (
        SELECT FROM chaos.ends_of_leases AS e
        WHERE e.task_id = l.task_id AND e.lease = l.lease AND e.holder = e.who AND e.new_status = 'completed'
    )
UNION ALL
SELECT 'told: ' || g.event, sum(g.number) FROM chaos.log AS g
WHERE g.event IN ('stale outcome', 'lease lost', 'worker declared dead', 'worker cut off', 'ghosts released')
GROUP BY g.event;
SELECT e.task_id, format('lease %s of %s was ended by %s (%s)', e.lease, e.holder, e.who, e.purpose) AS what
FROM chaos.ends_of_leases AS e
WHERE NOT e.is_hand AND e.purpose NOT IN ('orchestrator lead', 'orchestrator housekeeping')
    AND e.who IS DISTINCT FROM e.holder
UNION ALL
SELECT e.task_id, format('an outcome made under lease %s was accepted under %s', e.said_lease, e.lease)
FROM chaos.ends_of_leases AS e
WHERE e.said_lease <> e.lease AND e.new_status = 'completed'
UNION ALL
SELECT a.task_id, format('a failure made %s was accepted under %s', a.error ->> 'message', a.lease)
FROM orchestrator.attempts AS a
WHERE a.error ->> 'message' LIKE 'under lease %' AND a.error ->> 'message' <> 'under lease ' || a.lease
UNION ALL
SELECT e.task_id, format('lease %s was ended by somebody who is no worker, no leader and no hand: %s', e.lease, e.purpose)
FROM chaos.ends_of_leases AS e
WHERE NOT e.is_hand AND (e.who IS NULL OR e.purpose NOT LIKE 'orchestrator %');
