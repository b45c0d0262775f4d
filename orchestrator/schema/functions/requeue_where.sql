-- Run all finished tasks again that match, oldest first, with fresh attempts; returns how many. With dry_run it
-- only counts. It needs at least one filter; without a status it takes dead letters. It skips a cancelled task whose
-- idempotency key has passed to another task: return_key would refuse it, and all others with it.
CREATE OR REPLACE FUNCTION orchestrator.requeue_where(
    status text DEFAULT NULL,
    queue text DEFAULT NULL,
    type text DEFAULT NULL,
    error_class text DEFAULT NULL,
    finished_after timestamptz DEFAULT NULL,
    finished_before timestamptz DEFAULT NULL,
    at_most bigint DEFAULT NULL,
    dry_run boolean DEFAULT false,
    reason text DEFAULT NULL
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    ids bigint[];
    requeued bigint;
BEGIN
    IF num_nonnulls(requeue_where.status, requeue_where.queue, requeue_where.type, requeue_where.error_class,
        requeue_where.finished_after, requeue_where.finished_before) = 0
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = 'requeue_where needs at least one filter',
            HINT = 'For all dead letters: SELECT orchestrator.requeue_where(status => ''dead_letter'')';
    END IF;
    IF coalesce(requeue_where.status, 'dead_letter') NOT IN ('dead_letter', 'completed', 'cancelled') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('requeue_where takes finished tasks, not %s ones', trim(orchestrator.quote_short(requeue_where.status), '''')),
            HINT = 'The status may be dead_letter, completed or cancelled.';
    END IF;
    IF requeue_where.at_most < 0 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('at_most is %s; it must be a number of tasks, 0 or more', requeue_where.at_most),
            HINT = 'Leave it out to requeue all that match.';
    END IF;
    SELECT array_agg(found.id ORDER BY found.id) INTO ids
    FROM (
        SELECT t.id
        FROM orchestrator.tasks AS t
        WHERE t.status = coalesce(requeue_where.status, 'dead_letter')
            AND (requeue_where.queue IS NULL OR t.queue = requeue_where.queue)
            AND (requeue_where.type IS NULL OR t.type = requeue_where.type)
            AND (requeue_where.error_class IS NULL OR t.error ->> 'class' = requeue_where.error_class)
            AND (requeue_where.finished_after IS NULL OR t.finished_at >= requeue_where.finished_after)
            AND (requeue_where.finished_before IS NULL OR t.finished_at < requeue_where.finished_before)
            AND NOT (t.status = 'cancelled' AND orchestrator.key_has_passed(t.type, t.idempotency_key, t.id))
        ORDER BY t.finished_at, t.id
        LIMIT requeue_where.at_most
    ) AS found;
    IF requeue_where.dry_run OR ids IS NULL THEN
        RETURN coalesce(cardinality(ids), 0);
    END IF;
    PERFORM set_config('orchestrator.reason', coalesce(requeue_where.reason, ''), true);
    -- Checks the status again: a task that was requeued meanwhile must not be fenced off its new worker.
    UPDATE orchestrator.tasks AS t
    SET status = 'pending'
    WHERE t.id = ANY (ids) AND t.status = coalesce(requeue_where.status, 'dead_letter');
    GET DIAGNOSTICS requeued = ROW_COUNT;
    PERFORM set_config('orchestrator.reason', '', true);
    RETURN requeued;
END
$$;
