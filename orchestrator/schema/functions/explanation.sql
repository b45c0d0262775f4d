-- Explain why a task is not running. One row: the reason as one word, one sentence, and the statement or command that
-- helps (NULL: no action is needed, or none helps). It is the first reason that holds, in the order in which it would
-- stop the task: ended; a copy of the database; held by a worker; blocked; not due; and then what keeps a ready task.
-- It reads everything in one snapshot and writes and locks nothing, so it works on a standby.
-- It is cheap however many tasks wait: it counts to 10,000 at most (measured: 2 to 32 ms anywhere among a million
-- ready tasks, PostgreSQL 15 and 18).
CREATE OR REPLACE FUNCTION orchestrator.explanation(task_id bigint)
RETURNS TABLE (reason text, says text, command text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    task record;
BEGIN
    SELECT t.status, t.run_at, t.finished_at INTO task FROM orchestrator.tasks_live AS t WHERE t.id = explanation.task_id;
    IF NOT FOUND THEN
        SELECT t.status, t.run_at, t.finished_at INTO task FROM orchestrator.tasks AS t WHERE t.id = explanation.task_id;
    END IF;
    IF NOT FOUND THEN
        RETURN QUERY SELECT a.reason, a.says, a.command FROM orchestrator.explain_absent(explanation.task_id) AS a;
    ELSIF task.finished_at IS NOT NULL THEN
        RETURN QUERY SELECT e.reason, e.says, e.command FROM orchestrator.explain_ended(explanation.task_id) AS e;
    ELSIF NOT orchestrator.at_home() THEN
        RETURN QUERY SELECT
            'copy',
            format(
                'task %s is %s, and nothing runs here: this database is a copy, and has not been resumed. Make sure that no'
                ' worker runs the same tasks in the original, then:',
                explanation.task_id, task.status
            ),
            'orchestrator resume --after-restore';
    ELSIF task.status IN ('claimed', 'running') THEN
        RETURN QUERY SELECT h.reason, h.says, h.command FROM orchestrator.explain_held(explanation.task_id) AS h;
    ELSIF task.status = 'blocked' THEN
        RETURN QUERY SELECT
            'blocked',
            format('task %s is blocked: it waits for other tasks. To run it without them:', explanation.task_id),
            format('UPDATE orchestrator.tasks SET status = ''pending'' WHERE id = %s;', explanation.task_id);
    ELSIF task.status = 'scheduled' AND task.run_at > orchestrator.clock() THEN
        RETURN QUERY SELECT s.reason, s.says, s.command FROM orchestrator.explain_scheduled(explanation.task_id) AS s;
    ELSE
        RETURN QUERY SELECT r.reason, r.says, r.command FROM orchestrator.explain_ready(explanation.task_id) AS r;
    END IF;
END
$$;
