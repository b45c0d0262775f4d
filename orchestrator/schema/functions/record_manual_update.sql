-- Statement trigger on UPDATE of orchestrator.tasks: write audit for every row that the statement changed, record the
-- executions that lost their leases by it, and wake the workers of the queues whose tasks wait. Only manual statements
-- name the root; workers name the leaf. A row that moved between leaves is in both transition tables, so this needs no
-- row trigger.
-- With nested loops turned off, the two tables are hashed or merged. The session keeps the plan of its first UPDATE,
-- made for that number of rows: a nested loop planned for one row makes a later UPDATE of 100,000 never end.
CREATE OR REPLACE FUNCTION orchestrator.record_manual_update()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_nestloop = off
SET jit = off
AS $$
DECLARE
    stated_reason CONSTANT text := nullif(current_setting('orchestrator.reason', true), '');
    requeued record;
BEGIN
    -- A cancelled task had lost its key. Sorted, as enqueue_many takes keys, so that the two cannot deadlock.
    FOR requeued IN
        SELECT b.id, b.type, b.idempotency_key AS key
        FROM old_tasks AS b
        WHERE b.status = 'cancelled' AND b.idempotency_key IS NOT NULL
            AND b.id IN (SELECT a.id FROM new_tasks AS a WHERE a.status <> 'cancelled')
        ORDER BY b.type COLLATE "C", b.idempotency_key COLLATE "C", b.id
    LOOP
        PERFORM orchestrator.return_key(requeued.type, requeued.key, requeued.id);
    END LOOP;

    INSERT INTO orchestrator.audit (action, task_id, queue, reason, details)
    SELECT
        CASE
            WHEN a.status <> b.status AND a.status = 'cancelled' THEN 'cancel'
            WHEN a.status <> b.status AND b.status NOT IN ('scheduled', 'pending') THEN 'requeue'
            WHEN a.run_at <> b.run_at OR a.status <> b.status THEN 'run_at'
            WHEN a.priority <> b.priority THEN 'priority'
            ELSE 'edit'
        END,
        a.id,
        a.queue,
        stated_reason,
        jsonb_build_object('from', b.status, 'to', a.status)
            || CASE WHEN a.priority <> b.priority THEN jsonb_build_object('priority', a.priority) ELSE '{}' END
            || CASE WHEN a.run_at <> b.run_at THEN jsonb_build_object('run_at', a.run_at) ELSE '{}' END
    FROM new_tasks AS a
    JOIN old_tasks AS b ON b.id = a.id
    WHERE a IS DISTINCT FROM b
    ORDER BY a.id;

    -- Before the workers are notified: give back the permits that the leases held, and count for the gates.
    IF EXISTS (SELECT FROM old_tasks AS b WHERE b.holds IS NOT NULL OR b.gates IS NOT NULL) THEN
        INSERT INTO orchestrator.permits_returned (hold, permits)
        SELECT h.hold, count(*)
        FROM old_tasks AS b
        CROSS JOIN unnest(b.holds) AS h (hold)
        WHERE b.status IN ('claimed', 'running')
            AND b.id NOT IN (SELECT a.id FROM new_tasks AS a WHERE a.status IN ('claimed', 'running'))
        GROUP BY h.hold;
        INSERT INTO orchestrator.gate_changes (gate, ended, failed)
        SELECT g.gate, sum(a.has_ended::integer - b.has_ended::integer), sum(a.has_failed::integer - b.has_failed::integer)
        FROM (
            SELECT o.id, o.gates, o.finished_at IS NOT NULL AS has_ended, o.status IN ('cancelled', 'dead_letter') AS has_failed
            FROM old_tasks AS o
        ) AS b
        JOIN (
            SELECT n.id, n.finished_at IS NOT NULL AS has_ended, n.status IN ('cancelled', 'dead_letter') AS has_failed
            FROM new_tasks AS n
        ) AS a ON a.id = b.id
        CROSS JOIN unnest(b.gates) AS g (gate)
        WHERE (a.has_ended, a.has_failed) <> (b.has_ended, b.has_failed)
        GROUP BY g.gate;
    END IF;

    -- Record each execution that lost its lease. Its worker records it too, without effect if this record exists; but
    -- the worker may end before it can.
    INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, error, lease, worker_id, started_at)
    SELECT
        b.id, b.attempt, 'lost', b.queue, b.type,
        jsonb_build_object(
            'class', 'LeaseLost', 'message', format('a manual change made this task %s while worker %s ran it', a.status, b.worker_id),
            'traceback', ''
        ),
        b.lease, b.worker_id, b.started_at
    FROM new_tasks AS a
    JOIN old_tasks AS b ON b.id = a.id
    WHERE b.status = 'running' AND a.lease IS NULL
    ORDER BY b.id
    ON CONFLICT (task_id, lease) DO NOTHING;

    -- For every task that waits now: a worker woken for a task that waited before finds nothing new and sleeps on.
    PERFORM orchestrator.ring(ARRAY[n.queue], n.due)
    FROM (
        SELECT a.queue, min(a.run_at) AS due
        FROM new_tasks AS a
        WHERE a.status IN ('pending', 'scheduled')
        GROUP BY a.queue
    ) AS n;
    -- The workers that lost tasks get a notification. Not by a join: a plan kept from other row counts makes it slow.
    PERFORM orchestrator.notify_workers(ARRAY(
        SELECT DISTINCT b.worker_id
        FROM old_tasks AS b
        WHERE b.status IN ('claimed', 'running')
            AND b.id NOT IN (SELECT a.id FROM new_tasks AS a WHERE a.status IN ('claimed', 'running'))
    ));
    RETURN NULL;
END
$$;
