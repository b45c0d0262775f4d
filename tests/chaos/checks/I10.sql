-- fair count: no attempt beyond the last, and nobody is given up for another's crash
SELECT 'dead letters' AS label, count(*) AS number FROM chaos.steps AS s WHERE s.new_status = 'dead_letter'
UNION ALL
SELECT 'of these with three losses', count(*) FROM chaos.steps AS s WHERE s.new_status = 'dead_letter' AND s.losses >= 3
UNION ALL
SELECT 'of these poison', count(*) FROM chaos.steps AS s JOIN chaos.births AS b ON b.task_id = s.task_id
WHERE s.new_status = 'dead_letter' AND b.type = 'chaos.poison'
UNION ALL
SELECT 'most attempts of a task', max(s.new_attempt) FROM chaos.steps AS s;
SELECT s.task_id, format('attempt %s of %s', s.new_attempt, s.max_attempts) AS what
FROM chaos.steps AS s
WHERE s.new_attempt > s.max_attempts
UNION ALL
SELECT s.task_id, format('given up with %s losses, in attempt %s of %s', s.losses, s.new_attempt, s.max_attempts)
FROM chaos.steps AS s
WHERE s.new_status = 'dead_letter' AND s.losses < 3 AND s.new_attempt < s.max_attempts
    AND NOT EXISTS (SELECT FROM orchestrator.attempts AS a WHERE a.task_id = s.task_id AND a.outcome = 'discarded')
UNION ALL
SELECT s.task_id, format('given up with %s losses, and %s on record', s.losses, count(a.id))
FROM chaos.steps AS s
LEFT JOIN orchestrator.attempts AS a ON a.task_id = s.task_id AND a.outcome = 'lost'
WHERE s.new_status = 'dead_letter' AND s.error_class = 'WorkerLost'
GROUP BY s.task_id, s.n, s.losses
HAVING count(a.id) < s.losses;
