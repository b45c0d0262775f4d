-- Set how long a queue keeps its finished tasks and its dead letters; an argument that is not given changes nothing.
-- Returns the new values. After a shorter period is set, the next rounds of retention delete what is older; it cannot
-- be restored.
CREATE OR REPLACE FUNCTION orchestrator.set_retention(
    queue text,
    INOUT keep_finished interval DEFAULT NULL,
    INOUT keep_dead interval DEFAULT NULL,
    reason text DEFAULT NULL
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    old orchestrator.queues%ROWTYPE;
BEGIN
    IF num_nonnulls(set_retention.keep_finished, set_retention.keep_dead) = 0 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = 'set_retention needs keep_finished or keep_dead',
            HINT = 'For example: SELECT * FROM orchestrator.set_retention(''mail'', keep_finished => ''3 days'')';
    END IF;
    IF set_retention.keep_finished NOT BETWEEN interval '0' AND interval '1000 years'
        OR set_retention.keep_dead NOT BETWEEN interval '0' AND interval '1000 years'
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format(
                'keep_finished is %s and keep_dead is %s; both must lie between 0 and 1000 years',
                coalesce(set_retention.keep_finished::text, 'left out'), coalesce(set_retention.keep_dead::text, 'left out')
            ),
            HINT = 'To keep everything, write 1000 years.';
    END IF;
    PERFORM orchestrator.ensure_queue(set_retention.queue);
    SELECT * INTO old FROM orchestrator.queues AS q WHERE q.name = set_retention.queue FOR UPDATE;
    keep_finished := coalesce(set_retention.keep_finished, old.keep_finished);
    keep_dead := coalesce(set_retention.keep_dead, old.keep_dead);
    UPDATE orchestrator.queues AS q
    SET keep_finished = set_retention.keep_finished, keep_dead = set_retention.keep_dead
    WHERE q.name = set_retention.queue;
    INSERT INTO orchestrator.audit (action, queue, reason, details)
    VALUES (
        'retention', set_retention.queue, set_retention.reason,
        jsonb_build_object(
            'from', jsonb_build_object('keep_finished', old.keep_finished, 'keep_dead', old.keep_dead),
            'to', jsonb_build_object('keep_finished', set_retention.keep_finished, 'keep_dead', set_retention.keep_dead)
        )
    );
END
$$;
