-- The part of explanation() about a task that a worker holds: which worker, since when, until when; and if that worker
-- is gone, which worker takes the task back, and how soon. A worker is gone if it has stopped, was declared dead, has
-- not beaten for its dead_after, or has lost its beacon.
CREATE OR REPLACE FUNCTION orchestrator.explain_held(task_id bigint)
RETURNS TABLE (reason text, says text, command text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    now CONSTANT timestamptz := orchestrator.clock();
    task record;
    who text;
    beacon_lost boolean;
    leader text;
    peers integer;
    soon text;
    left_over interval;
BEGIN
    SELECT t.id, t.status, t.attempt, t.max_attempts, t.losses, t.timeout, t.claimed_at, t.started_at, t.worker_id,
        w.id IS NOT NULL AND w.state IN ('running', 'draining') AS lives, w.state, w.beat_at, w.dead_after,
        w.host, w.pid, w.capacity
    INTO task
    FROM orchestrator.tasks_live AS t
    LEFT JOIN orchestrator.workers AS w ON w.id = t.worker_id
    WHERE t.id = explain_held.task_id;
    who := format('worker %s (%s, pid %s)', task.worker_id, left(coalesce(task.host, 'unknown'), 200), coalesce(task.pid::text, 'unknown'));

    IF NOT orchestrator.is_alive(task.worker_id) THEN
        beacon_lost := task.lives AND orchestrator.beacon_is_lost(task.worker_id);
        SELECT format('%s, pid %s', left(l.host, 200), l.pid) INTO leader
        FROM orchestrator.leader AS l
        WHERE l.id <> task.worker_id;
        SELECT count(*) INTO peers FROM orchestrator.live_workers AS w WHERE w.id <> task.worker_id;
        -- A stopped worker may have left a claim on its way. The leader looks for it when the worker's beat is too old.
        soon := CASE
            WHEN task.state = 'stopped' AND task.beat_at > now - task.dead_after THEN 'in ' || orchestrator.format_interval(task.beat_at + task.dead_after - now)
            ELSE 'within seconds'
        END;
        RETURN QUERY SELECT
            'worker_gone',
            format('task %s is held by %s, which is gone: ', task.id, who)
            || CASE
                WHEN task.state IS NULL THEN 'it is not on the list of workers any more'
                WHEN NOT task.lives THEN format('it is %s', CASE task.state WHEN 'dead' THEN 'declared dead' ELSE task.state END)
                WHEN beacon_lost THEN 'its process has ended, or lost its connection'
                ELSE format('its last beat was %s ago', orchestrator.format_interval(now - task.beat_at))
            END
            || CASE
                WHEN leader IS NOT NULL THEN format('. The leader (%s) takes it back ', leader) || soon
                WHEN peers > 0 THEN '. The other workers elect a leader, which takes it back ' || soon
                ELSE '. No other worker lives; the next one that starts takes it back'
            END
            || CASE WHEN leader IS NULL AND peers = 0 THEN '. Start one:' ELSE '' END,
            CASE WHEN leader IS NULL AND peers = 0 THEN 'orchestrator worker MODULE:APP' END;
        RETURN;
    END IF;

    left_over := task.started_at + task.timeout - now;
    RETURN QUERY SELECT
        task.status,
        CASE
            WHEN task.status = 'running' THEN format(
                'task %s runs: attempt %s of %s, for %s, at %s', task.id, task.attempt, task.max_attempts,
                orchestrator.format_interval(now - task.started_at), who
            )
            ELSE format('task %s is held by %s for %s, and has not begun as far as is known: ', task.id, who, orchestrator.format_interval(now - task.claimed_at))
            || CASE
                WHEN task.losses >= 2 THEN format('%s workers died of it, so it waits until it can run there alone', task.losses)
                ELSE format(
                    'it has just started, or waits there for one of %s slots, among the %s tasks that this worker holds',
                    task.capacity,
                    (SELECT count(*) FROM (SELECT FROM orchestrator.tasks_live AS t WHERE t.worker_id = task.worker_id LIMIT 10000) AS h)
                )
            END
        END
        || CASE
            WHEN task.status = 'claimed' THEN ''
            WHEN task.timeout = interval '0' THEN '; it has no timeout'
            WHEN left_over > interval '0' THEN format('; its timeout of %s ends it in %s', orchestrator.format_interval(task.timeout), orchestrator.format_interval(left_over))
            ELSE format(
                '; its timeout of %s was over %s ago: if its worker does not end it, the leader does',
                orchestrator.format_interval(task.timeout), orchestrator.format_interval(-left_over)
            )
        END
        || CASE
            WHEN now - task.beat_at > task.dead_after / 2 THEN format(
                '. That worker has not been heard of for %s; in %s it counts as dead, and the task goes to another',
                orchestrator.format_interval(now - task.beat_at), orchestrator.format_interval(task.beat_at + task.dead_after - now)
            )
            WHEN task.state = 'draining' THEN '. That worker is about to stop, and gives back what it does not finish'
            ELSE ''
        END
        || '. To stop the task:',
        format('SELECT orchestrator.cancel(%s);', task.id);
END
$$;
