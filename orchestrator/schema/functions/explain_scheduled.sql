-- The part of explanation() about a task that is not due yet, and why: the producer gave it a time; a worker put it
-- back, because it did not know the type; two workers died while they ran it, and no worker was free to run it alone;
-- an attempt failed, and the next one waits; its handler snoozed it.
CREATE OR REPLACE FUNCTION orchestrator.explain_scheduled(task_id bigint)
RETURNS TABLE (reason text, says text, command text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    task record;
    failed record;
    due text;
    error text;
    knower text;
    now_then text;
BEGIN
    SELECT t.id, t.queue, t.type, t.attempt, t.max_attempts, t.losses, t.run_at, t.claimed_at, t.error INTO task
    FROM orchestrator.tasks_live AS t
    WHERE t.id = explain_scheduled.task_id;
    due := format('due at %s, in %s', task.run_at::timestamptz(0), orchestrator.format_interval(task.run_at - orchestrator.clock()));
    error := coalesce(': ' || left(task.error ->> 'class', 200), '') || coalesce(': ' || left(task.error ->> 'message', 300), '');
    now_then := format('UPDATE orchestrator.tasks SET status = ''pending'' WHERE id = %s;', task.id);

    IF task.error ? 'put_back' THEN
        SELECT format('%s, pid %s', left(w.host, 200), w.pid) INTO knower
        FROM orchestrator.live_workers AS l
        JOIN orchestrator.workers AS w ON w.id = l.id
        WHERE w.state = 'running' AND task.queue = ANY (w.queues) AND task.type = ANY (w.types)
        LIMIT 1;
        RETURN QUERY SELECT
            'unknown_type',
            format(
                'task %s was given back %s, because no worker that took it knows the type %s; it is %s. ',
                task.id, CASE task.error ->> 'put_back' WHEN '1' THEN 'once' ELSE left(task.error ->> 'put_back', 9) || ' times' END, left(task.type, 200), due
            )
            || CASE
                WHEN knower IS NULL THEN format('No live worker of queue %s knows that type. Start one that does:', left(task.queue, 200))
                ELSE format('A worker that knows it lives now (%s). To try it now:', knower)
            END,
            CASE WHEN knower IS NULL THEN orchestrator.worker_command(task.queue) ELSE now_then END;
        RETURN;
    END IF;
    IF task.losses >= 2 AND task.error ->> 'class' = 'WorkerLost' THEN
        RETURN QUERY SELECT
            'suspect',
            format(
                '%s workers died while they ran task %s, so it runs alone; the worker that claimed it had other tasks that did not'
                ' end, and it is tried again: %s. If it is not wanted:', task.losses, task.id, due
            ),
            format('SELECT orchestrator.cancel(%s);', task.id);
        RETURN;
    END IF;
    SELECT a.outcome, a.finished_at INTO failed
    FROM orchestrator.attempts AS a
    WHERE a.task_id = task.id AND a.outcome NOT IN ('released', 'snoozed')
    ORDER BY a.id DESC
    LIMIT 1;
    IF task.attempt > 0 AND failed.finished_at >= task.claimed_at THEN
        RETURN QUERY SELECT
            'retry',
            format(
                'task %s waits for its next attempt, %s: attempt %s of %s ended at %s (%s)%s. To try it now:',
                task.id, due, task.attempt, task.max_attempts, failed.finished_at::timestamptz(0), failed.outcome, error
            ),
            now_then;
    ELSIF task.claimed_at IS NOT NULL THEN
        RETURN QUERY SELECT 'snoozed', format('task %s was put off by its handler; it is %s. To run it now:', task.id, due), now_then;
    ELSE
        RETURN QUERY SELECT 'not_due', format('task %s is %s. To run it now:', task.id, due), now_then;
    END IF;
END
$$;
