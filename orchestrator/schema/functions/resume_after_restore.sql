-- Let tasks run in a restored dump or a copied database. The workers of the original hold no task here. A claimed task
-- becomes pending and its attempt is returned. A running task becomes pending with its attempt kept (after the last
-- attempt one is returned, so that it can run), with a row in attempts, and without a loss, because no worker died of
-- it. All workers are declared dead, and no worker leads. Returns its counts. At home it is refused and changes
-- nothing: the leases there are valid.
-- Locks: home, then worker rows, then task rows by id.
CREATE OR REPLACE FUNCTION orchestrator.resume_after_restore(reason text DEFAULT NULL)
RETURNS TABLE (claimed bigint, running bigint, workers bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    came_from jsonb;
BEGIN
    -- Calls are serialised, and the second one finds nothing left to do. Claims go on.
    LOCK TABLE orchestrator.home IN SHARE ROW EXCLUSIVE MODE;
    IF orchestrator.at_home() THEN
        RAISE NOTICE USING
            MESSAGE = 'this database is at home: nothing was changed',
            HINT = 'The database cannot recognise a copy made file by file. In such a copy, run SELECT orchestrator.hold_after_restore() first.';
        RETURN QUERY SELECT 0::bigint, 0::bigint, 0::bigint;
        RETURN;
    END IF;
    SELECT jsonb_agg(jsonb_build_object('database', i.database, 'since', i.since) ORDER BY i.since) INTO came_from
    FROM orchestrator.installation AS i
    WHERE NOT i.at_home;
    -- The first write: if another transaction has resumed since this one began (REPEATABLE READ), it fails here.
    PERFORM orchestrator.set_home();

    -- A worker that slept meanwhile looks again, finds itself declared dead, and starts anew.
    PERFORM orchestrator.ring(ARRAY(SELECT DISTINCT unnest(w.queues) FROM orchestrator.workers AS w WHERE w.idle_until IS NOT NULL));
    PERFORM FROM orchestrator.workers AS w WHERE w.state IN ('running', 'draining') OR w.is_leader ORDER BY w.id FOR UPDATE;
    UPDATE orchestrator.workers AS w
    SET state = CASE WHEN w.state IN ('running', 'draining') THEN 'dead' ELSE w.state END,
        idle_until = NULL, beacon = NULL, is_leader = false, leader_until = NULL
    WHERE w.state IN ('running', 'draining') OR w.is_leader;
    GET DIAGNOSTICS workers = ROW_COUNT;

    PERFORM FROM orchestrator.tasks_live AS t WHERE t.worker_id IS NOT NULL ORDER BY t.id FOR UPDATE;
    INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, error, lease, worker_id, started_at)
    SELECT
        t.id, t.attempt, 'lost', t.queue, t.type,
        jsonb_build_object(
            'class', 'DatabaseRestored',
            'message', 'it was running when the data of this database were copied; how it ended, if it did, is not known here',
            'traceback', ''
        ),
        t.lease, t.worker_id, t.started_at
    FROM orchestrator.tasks_live AS t
    WHERE t.status = 'running'
    ORDER BY t.id
    ON CONFLICT (task_id, lease) DO NOTHING;
    SELECT count(*) INTO running FROM orchestrator.tasks_live AS t WHERE t.worker_id IS NOT NULL AND t.status = 'running';
    INSERT INTO orchestrator.permits_returned (hold, permits)
    SELECT h.hold, count(*)
    FROM orchestrator.tasks_live AS t
    CROSS JOIN unnest(t.holds) AS h (hold)
    WHERE t.worker_id IS NOT NULL
    GROUP BY h.hold;
    UPDATE orchestrator.tasks_live AS t
    SET status = 'pending',
        attempt = CASE WHEN t.status = 'running' THEN least(t.attempt, t.max_attempts - 1) ELSE greatest(t.attempt - 1, 0) END,
        lease = NULL,
        worker_id = NULL
    WHERE t.worker_id IS NOT NULL;
    GET DIAGNOSTICS claimed = ROW_COUNT;
    claimed := claimed - running;

    INSERT INTO orchestrator.audit (action, reason, details)
    VALUES (
        'resume_after_restore', resume_after_restore.reason,
        jsonb_build_object('from', came_from, 'claimed', claimed, 'running', running, 'workers', workers)
    );
    RETURN NEXT;
END
$$;
