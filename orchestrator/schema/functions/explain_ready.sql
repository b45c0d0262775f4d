-- The part of explanation() about a task that is due. It returns the first reason that holds: the queue is paused, no
-- live worker serves it, none of those workers knows the type, another transaction has the row locked, two workers
-- died while they ran the task, all slots are busy; or nothing keeps it, and the answer is how many tasks are ahead of
-- it. A worker that did not report its types (an older one) counts as knowing the type. The tasks ahead are counted to
-- 10,000. They are counted in two halves: for (position, id) < (…) PostgreSQL 15 reads on through all equal positions,
-- and tasks that were enqueued together have equal positions (230 ms for the first of a million, 2 ms in halves).
-- Paths: tasks_live_pkey, tasks_live_claim_idx, tasks_live_worker_idx, whatever the statistics say.
CREATE OR REPLACE FUNCTION orchestrator.explain_ready(task_id bigint)
RETURNS TABLE (reason text, says text, command text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    now CONSTANT timestamptz := orchestrator.clock();
    at_most CONSTANT integer := 10000;
    task record;
    queue record;
    live record;
    locker record;
    ready text;
    named text;
    ahead bigint;
    held bigint;
    are_ahead text;
    tail text;
BEGIN
    SELECT t.id, t.queue, t.type, t.status, t.run_at, t.position, t.losses, t.priority, t.xmax::text AS locked_by INTO task
    FROM orchestrator.tasks_live AS t
    WHERE t.id = explain_ready.task_id;
    ready := format('task %s is ready since %s (%s)', task.id, task.run_at::timestamptz(0), orchestrator.format_interval(now - task.run_at));
    named := left(task.queue, 200);

    SELECT q.state, q.state_since, q.state_by, q.state_reason INTO queue FROM orchestrator.queues AS q WHERE q.name = task.queue;
    IF queue.state = 'paused' THEN
        RETURN QUERY SELECT
            'queue_paused',
            format(
                '%s, but its queue %s is paused, by %s since %s (%s)', ready, named, coalesce(queue.state_by, 'an unknown role'),
                queue.state_since::timestamptz(0), orchestrator.format_interval(now - queue.state_since)
            ) || coalesce(': ' || left(queue.state_reason, 300), '') || '. To let it run:',
            format('SELECT orchestrator.resume_queue(%L);', task.queue);
        RETURN;
    END IF;

    SELECT
        count(*) AS living,
        count(*) FILTER (WHERE task.queue = ANY (w.queues)) AS serving,
        count(*) FILTER (WHERE task.queue = ANY (w.queues) AND l.state = 'running') AS claiming,
        count(*) FILTER (WHERE task.queue = ANY (w.queues) AND l.state = 'running' AND k.knows) AS knowing,
        sum(w.capacity) FILTER (WHERE task.queue = ANY (w.queues) AND l.state = 'running' AND k.knows) AS slots,
        array_agg(w.id) FILTER (WHERE task.queue = ANY (w.queues) AND l.state = 'running' AND k.knows) AS ids,
        min(format('%s, pid %s', left(w.host, 200), w.pid)) FILTER (WHERE task.type = ANY (w.types)) AS elsewhere
    INTO live
    FROM orchestrator.workers AS w
    JOIN orchestrator.live_workers AS l ON l.id = w.id
    CROSS JOIN LATERAL (SELECT coalesce(task.type = ANY (w.types), true) AS knows) AS k;
    IF live.claiming = 0 THEN
        RETURN QUERY SELECT
            'no_worker',
            format('%s, but no live worker serves its queue %s: ', ready, named)
            || CASE
                WHEN live.serving > 0 THEN format('those that did (%s) are draining, and about to stop', live.serving)
                WHEN live.living > 0 THEN format('the live workers (%s) serve other queues', live.living)
                ELSE 'no worker is alive'
            END || '. Start one:',
            orchestrator.worker_command(task.queue);
        RETURN;
    ELSIF live.knowing = 0 THEN
        RETURN QUERY SELECT
            'no_handler',
            format('%s, but no live worker of its queue %s (workers: %s) knows the type %s', ready, named, live.claiming, left(task.type, 200))
            || CASE
                WHEN live.elsewhere IS NOT NULL THEN format('; one that serves other queues does (%s)', live.elsewhere)
                WHEN EXISTS (SELECT FROM orchestrator.types AS y WHERE y.name = task.type) THEN ''
                ELSE ', and no worker has ever declared it: it may be misspelt'
            END || '. Start one that does:',
            orchestrator.worker_command(task.queue);
        RETURN;
    END IF;

    -- The transaction that has the row locked for longer than a claim would: claims skip the row. (If several
    -- transactions share the lock, xmax is the number of their group, and no session is found. Without
    -- pg_read_all_stats the age of another role's transaction is hidden: then no session is named, because it may be a
    -- claim.)
    SELECT l.pid, a.application_name, a.xact_start INTO locker
    FROM pg_locks AS l
    LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.transactionid::text = task.locked_by
        AND l.pid <> pg_backend_pid()
    LIMIT 1;
    IF FOUND AND coalesce(locker.xact_start, 'infinity') < clock_timestamp() - interval '1 second' THEN
        RETURN QUERY SELECT
            'row_locked',
            format('%s, but another transaction has its row locked, and workers skip it: pid %s', ready, locker.pid)
            || coalesce(format(' (%s)', nullif(left(locker.application_name, 200), '')), '')
            || coalesce(', open for ' || orchestrator.format_interval(clock_timestamp() - locker.xact_start), '')
            || '. To end that session:',
            format('SELECT pg_terminate_backend(%s);', locker.pid);
        RETURN;
    END IF;

    tail := CASE WHEN queue.state = 'draining' THEN '. (The queue is draining: it takes no new tasks, and runs those it has)' ELSE '' END;
    IF task.losses >= 2 THEN
        RETURN QUERY SELECT
            'suspect',
            format(
                '%s, but %s workers died while they ran it: it waits for a worker that has ended its other tasks, and runs alone%s.'
                ' If it is not wanted:', ready, task.losses, tail
            ),
            format('SELECT orchestrator.cancel(%s);', task.id);
        RETURN;
    END IF;

    SELECT count(*) INTO ahead
    FROM (
        SELECT t.id FROM orchestrator.tasks_live AS t
        WHERE t.queue = task.queue AND t.status = 'pending' AND t.lane IS NULL AND t.position < task.position
        UNION ALL
        SELECT t.id FROM orchestrator.tasks_live AS t
        WHERE t.queue = task.queue AND t.status = 'pending' AND t.lane IS NULL AND t.position = task.position AND t.id < task.id
        LIMIT at_most + 1
    ) AS before;
    SELECT count(*) INTO held
    FROM (SELECT FROM orchestrator.tasks_live AS t WHERE t.worker_id = ANY (live.ids) LIMIT greatest(live.slots, at_most)) AS h;
    are_ahead := CASE
        WHEN ahead = 0 THEN 'it is the next'
        WHEN ahead > at_most THEN format('more than %s are ahead of it', at_most)
        ELSE format('%s %s ahead of it', ahead, CASE ahead WHEN 1 THEN 'is' ELSE 'are' END)
    END;
    IF held >= live.slots THEN
        RETURN QUERY SELECT
            'busy',
            format(
                '%s, but all %s slots for its queue %s are busy (workers: %s), and %s%s. %s',
                ready, live.slots, named, live.knowing, are_ahead, tail,
                CASE WHEN task.priority < 100 AND ahead > 0 THEN 'To put it first:' ELSE 'To run more at once:' END
            ),
            CASE WHEN task.priority < 100 AND ahead > 0
                THEN format('UPDATE orchestrator.tasks SET priority = 100 WHERE id = %s;', task.id)
                ELSE orchestrator.worker_command(task.queue)
            END;
    ELSIF ahead = 0 AND now - task.run_at > interval '30 seconds' THEN
        RETURN QUERY SELECT
            'stuck',
            format(
                '%s, it is the next, and its queue %s is served (workers: %s) with free slots: nothing that the database'
                ' knows of keeps it%s. Look at their logs, and at what this finds:', ready, named, live.knowing, tail
            ),
            'orchestrator doctor';
    ELSE
        RETURN QUERY SELECT
            'ready', format('%s; %s, and nothing keeps it: workers are at it%s', ready, are_ahead, tail), NULL::text;
    END IF;
END
$$;
