-- The part of explanation() about a task that does not exist: an operator deleted it, it was never enqueued, retention
-- deleted it, or its transaction is not committed yet or was rolled back.
CREATE OR REPLACE FUNCTION orchestrator.explain_absent(task_id bigint)
RETURNS TABLE (reason text, says text, command text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    newest bigint;
    found_row record;
    writers integer[];
BEGIN
    SELECT a.actor, a.at, a.reason AS why INTO found_row
    FROM orchestrator.audit AS a
    WHERE a.task_id = explain_absent.task_id AND a.action = 'delete'
    ORDER BY a.id DESC
    LIMIT 1;
    IF FOUND THEN
        RETURN QUERY SELECT
            'deleted',
            format('there is no task %s: %s deleted it at %s', explain_absent.task_id, found_row.actor, found_row.at::timestamptz(0))
            || coalesce(': ' || left(found_row.why, 300), ''),
            NULL;
        RETURN;
    END IF;

    IF has_sequence_privilege('orchestrator.tasks_id_seq', 'SELECT') THEN
        SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END INTO newest FROM orchestrator.tasks_id_seq AS s;
    END IF;
    IF explain_absent.task_id > newest OR explain_absent.task_id < 1 THEN
        RETURN QUERY SELECT
            'never_existed',
            format('there is no task %s, and there has been none: ', explain_absent.task_id)
            || CASE WHEN newest > 0 THEN format('the newest has the id %s', newest) ELSE 'ids begin at 1' END,
            NULL;
        RETURN;
    END IF;

    SELECT a.outcome, a.finished_at, a.type, a.queue INTO found_row
    FROM orchestrator.attempts AS a
    WHERE a.task_id = explain_absent.task_id
    ORDER BY a.id DESC
    LIMIT 1;
    IF FOUND THEN
        RETURN QUERY SELECT
            'forgotten',
            format(
                'there is no task %s any more: it was a %s in queue %s, its last recorded attempt ended at %s (%s), and what has'
                ' ended is kept for as long as its queue says',
                explain_absent.task_id, left(found_row.type, 200), left(found_row.queue, 200),
                found_row.finished_at::timestamptz(0), found_row.outcome
            ),
            NULL;
        RETURN;
    END IF;

    -- A transaction that enqueues holds a lock on the root until its end; a worker's statements name leaves.
    SELECT array_agg(w.pid) INTO writers
    FROM (
        SELECT l.pid
        FROM pg_locks AS l
        WHERE l.locktype = 'relation' AND l.relation = 'orchestrator.tasks'::regclass AND l.mode = 'RowExclusiveLock'
            AND l.granted AND l.pid <> pg_backend_pid()
            AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
        ORDER BY l.pid
        LIMIT 5
    ) AS w;
    RETURN QUERY SELECT
        'absent',
        format(
            'there is no task %s, though the id was given out: the transaction that enqueued it is not committed yet, or was'
            ' rolled back; or it ended, and retention has deleted it', explain_absent.task_id
        )
        || CASE
            WHEN writers IS NULL THEN '. No transaction that writes to tasks is open now'
            ELSE '. Transactions that have written to tasks are open now:'
        END,
        CASE WHEN writers IS NOT NULL THEN format(
            'SELECT pid, application_name, state, xact_start FROM pg_stat_activity WHERE pid IN (%s);', array_to_string(writers, ', ')
        ) END;
END
$$;
