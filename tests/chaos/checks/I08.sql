SELECT 'terms' AS label, count(DISTINCT l.term) AS number FROM chaos.lives AS l WHERE l.is_leader
UNION ALL
SELECT 'writes of duties', count(*) FROM chaos.ends_of_leases AS e
WHERE e.purpose IN ('orchestrator lead', 'orchestrator housekeeping');
SELECT e.task_id, format('a duty was done by %s while %s led', e.who, coalesce(p.who, 'nobody')) AS what
FROM chaos.ends_of_leases AS e
LEFT JOIN chaos.processes AS p ON p.worker_id = e.leader
WHERE e.purpose IN ('orchestrator lead', 'orchestrator housekeeping') AND p.who IS DISTINCT FROM e.who;
