-- Tasks that workers have put back, because they did not know the type. Out: type; queue; how many; the statement that
-- shows them; the first of them, by id. They wait for five minutes at most, with some jitter, so it reads the tasks due
-- within six minutes, at most 20,000. Path: tasks_live_due_idx.
SELECT
    s.type, s.queue, count(*),
    format('SELECT id, queue, run_at FROM orchestrator.tasks WHERE type = %%L AND status = ''scheduled'' LIMIT 20;', s.type),
    min(s.id)
FROM (
    SELECT t.id, t.type, t.queue, t.error
    FROM orchestrator.tasks_live AS t
    WHERE t.status = 'scheduled' AND t.run_at <= orchestrator.clock() + interval '6 minutes'
    ORDER BY t.run_at
    LIMIT 20000
) AS s
WHERE s.error ? 'put_back'
GROUP BY s.type, s.queue
ORDER BY count(*) DESC
LIMIT 20
