-- edges: each step begins where the last one ended, and is one that its maker may take; hands are refused by name
SELECT 'steps' AS label, count(*) AS number FROM chaos.steps
UNION ALL
SELECT 'steps by hand', count(*) FROM chaos.steps AS s WHERE s.is_hand
UNION ALL
SELECT 'hands refused', count(*) FROM chaos.faults AS f WHERE f.detail LIKE 'refused: %';
SELECT s.task_id, format('%s → %s by %s', s.old_status, s.new_status, coalesce(s.purpose, s.role)) AS what
FROM chaos.steps AS s
WHERE s.old_status <> s.new_status
    AND NOT EXISTS (
        SELECT FROM chaos.edges AS e
        WHERE e.old_status = s.old_status AND e.new_status = s.new_status AND CASE WHEN s.is_hand THEN e.hand ELSE e.worker END
    )
UNION ALL
SELECT r.task_id, format('was %s, and then came from %s', r.before, r.old_status)
FROM (
    SELECT s.task_id, s.old_status, lag(s.new_status) OVER (PARTITION BY s.task_id ORDER BY s.n) AS before,
        row_number() OVER (PARTITION BY s.task_id ORDER BY s.n) AS place
    FROM chaos.steps AS s
) AS r
WHERE r.place > 1 AND r.before IS DISTINCT FROM r.old_status
UNION ALL
SELECT s.task_id, format('began as %s', s.new_status)
FROM chaos.steps AS s
WHERE s.old_status IS NULL AND s.new_status NOT IN ('pending', 'scheduled')
UNION ALL
SELECT s.task_id, format('was deleted by no hand (%s)', s.purpose)
FROM chaos.steps AS s
WHERE s.new_status IS NULL AND NOT s.is_hand
UNION ALL
SELECT NULL, format('%s: %s', f.kind, f.detail) FROM chaos.faults AS f WHERE f.detail LIKE 'UNEXPECTED%';
