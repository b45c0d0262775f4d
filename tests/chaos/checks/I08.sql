-- term: terms strictly rise, none is given twice, and only who holds the lead does its duties
SELECT 'terms' AS label, count(DISTINCT l.term) AS number FROM chaos.lives AS l WHERE l.is_leader
UNION ALL
SELECT 'writes of duties', count(*) FROM chaos.ends_of_leases AS e
WHERE e.purpose IN ('orchestrator lead', 'orchestrator housekeeping');
WITH led AS (
    -- As each transaction left it: an election takes the place first, and draws the term then.
    SELECT DISTINCT ON (l.xid, l.worker_id) l.n, l.worker_id, l.who, l.term, l.is_leader
    FROM chaos.lives AS l
    ORDER BY l.xid, l.worker_id, l.n DESC
),
changed AS (
    SELECT l.n, l.who, l.term, l.is_leader,
        (l.is_leader, l.term) IS DISTINCT FROM (lag(l.is_leader) OVER own, lag(l.term) OVER own) AS is_new
    FROM led AS l
    WINDOW own AS (PARTITION BY l.worker_id ORDER BY l.n)
)
SELECT NULL::bigint AS task_id, format('term %s of %s came after term %s', r.term, r.who, r.highest) AS what
FROM (
    SELECT c.term, c.who, max(c.term) OVER (ORDER BY c.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
    FROM changed AS c
    WHERE c.is_leader AND c.is_new
) AS r
WHERE r.term <= r.highest
UNION ALL
SELECT e.task_id, format('a duty was done by %s while %s led', e.who, coalesce(p.who, 'nobody'))
FROM chaos.ends_of_leases AS e
LEFT JOIN chaos.processes AS p ON p.worker_id = e.leader
WHERE e.purpose IN ('orchestrator lead', 'orchestrator housekeeping') AND p.who IS DISTINCT FROM e.who;
