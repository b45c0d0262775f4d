SELECT 'outcomes written by workers' AS label, count(*) AS number
FROM chaos.ends_of_leases AS e WHERE e.purpose IN ('orchestrator outcomes', 'orchestrator transactions')
UNION ALL
SELECT 'handlers that returned after their lease was taken', count(*) FROM chaos.late
UNION ALL
SELECT '… ' || coalesce(l.told, 'NEVER TOLD'), count(*) FROM chaos.late AS l GROUP BY l.told
UNION ALL
SELECT 'log: ' || g.event, sum(g.number) FROM chaos.log AS g
WHERE g.event IN ('stale outcome', 'lease lost', 'worker declared dead', 'worker cut off', 'ghosts released')
GROUP BY g.event;
SELECT e.task_id, format('lease %s of %s was ended by %s (%s)', e.lease, e.holder, e.who, e.purpose) AS what
FROM chaos.ends_of_leases AS e
WHERE NOT e.is_manual AND e.purpose NOT IN ('orchestrator lead', 'orchestrator housekeeping')
    AND e.who IS DISTINCT FROM e.holder
UNION ALL
SELECT s.task_id, format('%s wrote an outcome of a task that no worker held: %s → %s', s.who, s.old_status, s.new_status)
FROM chaos.steps AS s
WHERE s.old_lease IS NULL AND s.purpose IN ('orchestrator outcomes', 'orchestrator transactions')
UNION ALL
SELECT e.task_id, format('an outcome made under lease %s was accepted under %s', e.said_lease, e.lease)
FROM chaos.ends_of_leases AS e
WHERE e.said_lease <> e.lease AND e.new_status = 'completed'
UNION ALL
SELECT a.task_id, format('a failure made %s was accepted under %s', a.error ->> 'message', a.lease)
FROM orchestrator.attempts AS a
WHERE a.error ->> 'message' LIKE 'under lease %' AND a.error ->> 'message' <> 'under lease ' || a.lease
UNION ALL
SELECT e.task_id, format('lease %s was ended by a session of no worker, leader or operator: %s', e.lease, e.purpose)
FROM chaos.ends_of_leases AS e
WHERE NOT e.is_manual AND (e.who IS NULL OR e.purpose NOT LIKE 'orchestrator %')
UNION ALL
SELECT l.task_id, format('returned in %s under lease %s, which was taken, and its worker was not told', l.who, l.lease)
FROM chaos.late AS l
WHERE l.told IS NULL;
