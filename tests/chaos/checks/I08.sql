-- term: terms strictly rise, none is given twice, and only who holds the lead does its duties
SELECT 'terms' AS label, count(DISTINCT l.term) AS number FROM chaos.lives AS l WHERE l.is_leader
UNION ALL
SELECT 'writes of duties', count(*) FROM chaos.ends_of_leases AS e
WHERE e.purpose IN ('orchestrator lead', 'orchestrator housekeeping');
SELECT NULL::bigint AS task_id, format('term %s of %s came after term %s', r.term, r.who, r.highest) AS what
FROM (
    SELECT l.term, l.who, max(l.term) OVER (ORDER BY l.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
    FROM chaos.lives AS l
    JOIN LATERAL (
        SELECT b.is_leader AS led, b.term AS term FROM chaos.lives AS b
        WHERE b.worker_id = l.worker_id AND b.n < l.n ORDER BY b.n DESC LIMIT 1
    ) AS before ON (before.led, before.term) IS DISTINCT FROM (l.is_leader, l.term)
    WHERE l.is_leader
) AS r
WHERE r.term <= r.highest
UNION ALL
SELECT e.task_id, format('a duty was done by %s while %s led', e.who, coalesce(p.who, 'nobody'))
FROM chaos.ends_of_leases AS e
LEFT JOIN chaos.processes AS p ON p.worker_id = e.leader
WHERE e.purpose IN ('orchestrator lead', 'orchestrator housekeeping') AND p.who IS DISTINCT FROM e.who;
