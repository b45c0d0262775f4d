-- Statement trigger on UPDATE of orchestrator.tasks: write audit for every row a hand changed, and wake the
-- workers of the queues that got work back. Only hands name the root; workers name the leaf. A row that moved
-- between leaves is in both transition tables, which is why this needs no row trigger.
CREATE OR REPLACE FUNCTION orchestrator.record_hands_update()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
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
        nullif(current_setting('orchestrator.reason', true), ''),
        jsonb_build_object('from', b.status, 'to', a.status)
            || CASE WHEN a.priority <> b.priority THEN jsonb_build_object('priority', a.priority) ELSE '{}' END
            || CASE WHEN a.run_at <> b.run_at THEN jsonb_build_object('run_at', a.run_at) ELSE '{}' END
    FROM new_tasks AS a
    JOIN old_tasks AS b ON b.id = a.id
    ORDER BY a.id;

    PERFORM orchestrator.ring(array_agg(n.queue), n.due)
    FROM (
        SELECT DISTINCT a.queue, a.run_at AS due
        FROM new_tasks AS a
        JOIN old_tasks AS b ON b.id = a.id
        WHERE a.status IN ('pending', 'scheduled') AND (a.status <> b.status OR a.run_at <> b.run_at)
    ) AS n
    GROUP BY n.due;
    RETURN NULL;
END
$$;
