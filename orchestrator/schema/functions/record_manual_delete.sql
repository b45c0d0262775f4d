-- Statement trigger on DELETE of orchestrator.tasks: write audit, record the executions that lost their leases by
-- it, and free the idempotency keys of the deleted tasks.
-- Only manual statements name the root; workers name the leaf, and their tasks keep their keys.
-- With the other joins and scans turned off, each key is looked up through the index. A plan kept from a DELETE of many
-- rows, or from a time without keys, would otherwise read all keys for each later DELETE of one row.
CREATE OR REPLACE FUNCTION orchestrator.record_manual_delete()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    INSERT INTO orchestrator.audit (action, task_id, queue, reason, details)
    SELECT
        'delete', b.id, b.queue, nullif(current_setting('orchestrator.reason', true), ''),
        jsonb_build_object('from', b.status, 'type', b.type)
    FROM old_tasks AS b
    ORDER BY b.id;

    INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, error, lease, worker_id, started_at)
    SELECT
        b.id, b.attempt, 'lost', b.queue, b.type,
        jsonb_build_object(
            'class', 'LeaseLost', 'message', format('a manual change deleted this task while worker %s ran it', b.worker_id), 'traceback', ''
        ),
        b.lease, b.worker_id, b.started_at
    FROM old_tasks AS b
    WHERE b.status = 'running'
    ORDER BY b.id
    ON CONFLICT (task_id, lease) DO NOTHING;

    -- Locks the keys in the order in which enqueue_many takes them, so that the two cannot deadlock.
    PERFORM
    FROM orchestrator.idempotency_keys AS k
    JOIN old_tasks AS b ON k.type = b.type AND k.key = b.idempotency_key AND k.task_id = b.id
    ORDER BY k.type COLLATE "C", k.key COLLATE "C"
    FOR UPDATE OF k;

    DELETE FROM orchestrator.idempotency_keys AS k
    USING old_tasks AS b
    WHERE k.type = b.type AND k.key = b.idempotency_key AND k.task_id = b.id;
    -- A deleted task can never succeed: its gates must count it as failed.
    IF EXISTS (SELECT FROM old_tasks AS b WHERE b.holds IS NOT NULL OR b.gates IS NOT NULL) THEN
        INSERT INTO orchestrator.permits_returned (hold, permits)
        SELECT h.hold, count(*)
        FROM old_tasks AS b
        CROSS JOIN unnest(b.holds) AS h (hold)
        WHERE b.status IN ('claimed', 'running')
        GROUP BY h.hold;
        INSERT INTO orchestrator.gate_changes (gate, ended, failed, lost)
        SELECT
            g.gate, count(*) FILTER (WHERE b.finished_at IS NULL), count(*) FILTER (WHERE b.finished_at IS NULL), count(*)
        FROM old_tasks AS b
        CROSS JOIN unnest(b.gates) AS g (gate)
        WHERE b.status <> 'completed'
        GROUP BY g.gate;
    END IF;
    -- The workers that ran deleted tasks get a notification.
    PERFORM orchestrator.notify_workers(ARRAY(SELECT DISTINCT b.worker_id FROM old_tasks AS b WHERE b.status IN ('claimed', 'running')));
    RETURN NULL;
END
$$;
