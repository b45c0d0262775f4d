-- Suspects that are tried again (two workers died while they ran them), and tasks that cost five workers and became
-- dead letters within the last day. Out: id; type; losses; whether it is a dead letter; the statement that shows its
-- history. It reads the last 10,000 recorded attempts and the last 10,000 dead letters.
-- Paths: attempts_pkey, tasks_live_pkey, tasks_dead_finished_idx.
WITH lost AS (
    SELECT a.task_id
    FROM (SELECT r.task_id, r.outcome FROM orchestrator.attempts AS r ORDER BY r.id DESC LIMIT 10000) AS a
    WHERE a.outcome = 'lost'
    GROUP BY a.task_id
    HAVING count(*) >= 2
)
SELECT t.id, t.type, t.losses, false, format('SELECT at, event, detail FROM orchestrator.task_history WHERE task_id = %%s ORDER BY at;', t.id)
FROM orchestrator.tasks_live AS t
WHERE t.id = ANY (ARRAY(SELECT l.task_id FROM lost AS l)) AND t.losses >= 2
UNION ALL
SELECT d.id, d.type, d.losses, true, format('SELECT at, event, detail FROM orchestrator.task_history WHERE task_id = %%s ORDER BY at;', d.id)
FROM (
    SELECT t.id, t.type, t.losses, t.error
    FROM orchestrator.tasks_dead AS t
    WHERE t.finished_at > orchestrator.clock() - interval '1 day'
    ORDER BY t.finished_at DESC
    LIMIT 10000
) AS d
WHERE d.losses >= 5 AND d.error ->> 'class' = 'WorkerLost'
LIMIT 20
