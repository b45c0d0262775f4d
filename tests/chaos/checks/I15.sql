SELECT 'tasks compared' AS label, count(DISTINCT s.task_id) AS number FROM chaos.steps AS s
UNION ALL
SELECT 'losses on record', count(*) FROM orchestrator.attempts AS a WHERE a.outcome = 'lost'
UNION ALL
SELECT 'processes whose metrics were compared', count(DISTINCT m.who) FROM chaos.metrics AS m;
WITH last AS (
    SELECT DISTINCT ON (s.task_id) s.task_id, s.new_status, s.new_attempt
    FROM chaos.steps AS s
    ORDER BY s.task_id, s.n DESC
)
SELECT coalesce(l.task_id, t.id) AS task_id, format(
        'is %s (%s) by the table, and %s (%s) by the trail', coalesce(t.status, 'gone'), t.attempt, coalesce(l.new_status, 'gone'), l.new_attempt
    ) AS what
FROM last AS l
FULL JOIN orchestrator.tasks AS t ON t.id = l.task_id
WHERE (t.status, t.attempt) IS DISTINCT FROM (l.new_status, l.new_attempt)
UNION ALL
SELECT NULL, format('queue_summary counts %s dead letters, and there are %s', sum(q.dead_letters), (SELECT count(*) FROM orchestrator.tasks_dead))
FROM orchestrator.queue_summary AS q
HAVING sum(q.dead_letters) <> (SELECT count(*) FROM orchestrator.tasks_dead)
UNION ALL
SELECT a.task_id, format('lost, and its record names no worker: %s', a.error)
FROM orchestrator.attempts AS a
WHERE a.outcome = 'lost' AND (a.worker_id IS NULL OR a.error ->> 'message' NOT LIKE 'worker ' || a.worker_id || '%')
UNION ALL
SELECT NULL, format('the logs tell of more recoveries (%s) than there were (%s)', told.number, done.number)
FROM (SELECT coalesce(sum(g.number), 0) AS number FROM chaos.log AS g WHERE g.event = 'tasks recovered') AS told,
    (
        SELECT count(DISTINCT e.xid) + (SELECT count(*) FROM chaos.lives AS l WHERE l.state = 'dead') AS number
        FROM chaos.ends_of_leases AS e WHERE e.purpose = 'orchestrator lead'
    ) AS done
WHERE told.number > done.number
UNION ALL
SELECT NULL, format('%s counted %s as %s, and said so %s times', m.who, m.value, m.name, coalesce(g.number, 0))
FROM chaos.metrics AS m
JOIN (VALUES
    ('orchestrator_stale_writes_rejected_total', 'stale outcome'), ('orchestrator_leases_lost_total', 'lease lost')
) AS v (name, event) ON v.name = m.name
LEFT JOIN chaos.log AS g ON g.who = m.who AND g.event = v.event
WHERE m.value <> coalesce(g.number, 0)
UNION ALL
SELECT NULL, format('%s counted %s tasks that it took back, and the trail has %s', m.who, m.value, count(e.n))
FROM chaos.metrics AS m
LEFT JOIN chaos.ends_of_leases AS e ON e.who = m.who AND e.purpose = 'orchestrator lead' AND e.cause LIKE 'worker lost%'
WHERE m.name = 'orchestrator_tasks_recovered_total'
GROUP BY m.who, m.value
-- Fewer is no lie: the answer to a duty may be lost.
HAVING m.value > count(e.n);
