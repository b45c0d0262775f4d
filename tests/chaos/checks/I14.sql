SELECT 'processes that a task killed' AS label, count(*) AS number FROM chaos.ends AS e
WHERE NOT e.expected AND e.status = -9
UNION ALL
SELECT 'losses of their neighbours', count(*)
FROM orchestrator.attempts AS a
JOIN chaos.births AS b ON b.task_id = a.task_id
JOIN chaos.processes AS p ON p.worker_id = a.worker_id
JOIN chaos.ends AS e ON e.who = p.who AND NOT e.expected AND e.status = -9 AND e.at <= a.finished_at
WHERE a.outcome = 'lost' AND b.type <> 'chaos.poison';
-- From the second loss on a task runs alone, so the last one cannot be another's doing. Unless the worker was killed later:
-- it had been cut off, and went on under another id.
SELECT s.task_id, format('became a dead letter with worker %s, which a poison killed', p.who) AS what
FROM chaos.steps AS s
JOIN chaos.births AS b ON b.task_id = s.task_id
JOIN chaos.processes AS p ON p.worker_id = s.old_worker
JOIN chaos.ends AS e ON e.who = p.who AND NOT e.expected AND e.status = -9 AND e.at <= s.at
WHERE s.new_status = 'dead_letter' AND s.losses >= 5 AND s.error_class = 'WorkerLost' AND b.type <> 'chaos.poison';
