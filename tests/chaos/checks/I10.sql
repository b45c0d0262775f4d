SELECT 'dead letters' AS label, count(*) AS number FROM chaos.steps AS s WHERE s.new_status = 'dead_letter'
UNION ALL
SELECT 'of these with five losses', count(*) FROM chaos.steps AS s WHERE s.new_status = 'dead_letter' AND s.losses >= 5
UNION ALL
SELECT 'of these poison', count(*) FROM chaos.steps AS s JOIN chaos.births AS b ON b.task_id = s.task_id
WHERE s.new_status = 'dead_letter' AND b.type = 'chaos.poison'
UNION ALL
SELECT 'lost while running in the last attempt, and returned', count(*) FROM chaos.ends_of_leases AS e
JOIN chaos.steps AS s ON s.task_id = e.task_id AND s.n = e.n
WHERE e.cause = 'worker lost' AND s.new_status = 'pending' AND s.old_attempt = s.max_attempts
UNION ALL
SELECT 'most attempts of a task', max(s.new_attempt) FROM chaos.steps AS s;
SELECT s.task_id, format('became a dead letter with %s losses, in attempt %s of %s', s.losses, s.new_attempt, s.max_attempts) AS what
FROM chaos.steps AS s
WHERE s.new_status = 'dead_letter' AND s.losses < 5
    -- A loss is no failure, also in the last attempt: it may have been another's doing.
    AND (s.error_class = 'WorkerLost' OR s.new_attempt < s.max_attempts AND NOT EXISTS (
        SELECT FROM orchestrator.attempts AS a
        WHERE a.task_id = s.task_id AND a.lease = s.old_lease AND a.outcome = 'discarded'
    ))
UNION ALL
SELECT s.task_id, format('became a dead letter with %s losses, and %s on record', s.losses, count(a.id))
FROM chaos.steps AS s
LEFT JOIN orchestrator.attempts AS a ON a.task_id = s.task_id AND a.outcome = 'lost'
WHERE s.new_status = 'dead_letter' AND s.error_class = 'WorkerLost'
GROUP BY s.task_id, s.n, s.losses
HAVING count(a.id) < s.losses;
