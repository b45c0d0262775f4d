SELECT 'permits taken' AS label, 2 * count(*) AS number FROM chaos.claims AS c WHERE c.task_id % 3 = 0
UNION ALL
SELECT 'permits returned', sum(p.permits) FROM orchestrator.permits_returned AS p
UNION ALL
SELECT 'permits folded', coalesce(sum(f.permits), 0) FROM lane_limits.returned AS f
UNION ALL
SELECT 'ends told to gates', sum(g.ended) FROM orchestrator.gate_changes AS g;
WITH due AS (
    SELECT h.hold, count(*) AS permits
    FROM chaos.ends_of_leases AS e
    CROSS JOIN unnest(ARRAY[100 + e.task_id % 16, 200 + e.task_id % 7]) AS h (hold)
    WHERE e.task_id % 3 = 0
    GROUP BY h.hold
),
returned AS (
    SELECT p.hold, sum(p.permits) AS permits
    FROM (
        SELECT n.hold, n.permits FROM orchestrator.permits_returned AS n
        UNION ALL SELECT f.hold, f.permits FROM lane_limits.returned AS f
    ) AS p
    GROUP BY p.hold
),
-- A task that is gone was deleted manually: then it had ended, or that ended it.
ended AS (
    SELECT b.task_id % 16 AS gate, count(*) AS ended, count(*) FILTER (WHERE t.status IS DISTINCT FROM 'completed') AS not_well
    FROM chaos.births AS b
    LEFT JOIN orchestrator.tasks AS t ON t.id = b.task_id
    WHERE b.task_id % 3 = 0 AND (t.id IS NULL OR t.finished_at IS NOT NULL)
    GROUP BY 1
),
told AS (SELECT g.gate, sum(g.ended) AS ended, sum(g.failed) AS failed FROM orchestrator.gate_changes AS g GROUP BY g.gate)
SELECT NULL::bigint AS task_id, format(
        'hold %s: %s leases ended, and %s permits came back', coalesce(d.hold, r.hold), coalesce(d.permits, 0), coalesce(r.permits, 0)
    ) AS what
FROM due AS d
FULL JOIN returned AS r ON r.hold = d.hold
WHERE coalesce(d.permits, 0) <> coalesce(r.permits, 0)
UNION ALL
SELECT NULL, format('lane %s: %s permits are out, and %s leases hold one', l.hold, l.running - l.unfolded, l.leased)
FROM (
    SELECT n.hold, n.running,
        (SELECT coalesce(sum(p.permits), 0) FROM orchestrator.permits_returned AS p WHERE p.hold = n.hold) AS unfolded,
        (SELECT count(*) FROM orchestrator.tasks_live AS t WHERE t.lane = n.hold AND t.lease IS NOT NULL) AS leased
    FROM lane_limits.limits AS n
) AS l
WHERE l.running - l.unfolded <> l.leased
UNION ALL
SELECT NULL, format('lane %s: %s leases at once', a.hold, a.leases) FROM lane_limits.above AS a
UNION ALL
SELECT NULL, format('gate %s: %s tasks ended, and it was told of %s', coalesce(e.gate, g.gate), coalesce(e.ended, 0), coalesce(g.ended, 0))
FROM ended AS e
FULL JOIN told AS g ON g.gate = e.gate
WHERE coalesce(e.ended, 0) <> coalesce(g.ended, 0)
UNION ALL
-- One that had succeeded may have been deleted since.
SELECT NULL, format('gate %s: %s tasks did not end well, and it was told of %s', e.gate, e.not_well, coalesce(g.failed, 0))
FROM ended AS e
LEFT JOIN told AS g ON g.gate = e.gate
WHERE coalesce(g.failed, 0) > e.not_well OR NOT EXISTS (
    SELECT FROM chaos.births AS b
    WHERE b.task_id % 3 = 0 AND b.task_id % 16 = e.gate AND NOT EXISTS (SELECT FROM orchestrator.tasks AS t WHERE t.id = b.task_id)
) AND coalesce(g.failed, 0) < e.not_well;
