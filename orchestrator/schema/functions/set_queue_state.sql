-- The common part of pause_queue, resume_queue and drain_queue: the row, the audit, the wake-up. Returns the new state.
CREATE OR REPLACE FUNCTION orchestrator.set_queue_state(queue text, new_state text, reason text)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    old_state text;
BEGIN
    IF set_queue_state.new_state IS NULL OR set_queue_state.new_state NOT IN ('active', 'paused', 'draining') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('a queue cannot be %s', orchestrator.quote_short(set_queue_state.new_state)),
            HINT = 'It is active, paused or draining.';
    END IF;
    PERFORM orchestrator.ensure_queue(set_queue_state.queue);
    SELECT q.state INTO old_state FROM orchestrator.queues AS q WHERE q.name = set_queue_state.queue FOR UPDATE;
    UPDATE orchestrator.queues AS q
    SET state = set_queue_state.new_state, state_since = orchestrator.clock(),
        state_by = session_user, state_reason = set_queue_state.reason
    WHERE q.name = set_queue_state.queue;
    INSERT INTO orchestrator.audit (action, queue, reason, details)
    VALUES (
        CASE set_queue_state.new_state WHEN 'paused' THEN 'pause' WHEN 'draining' THEN 'drain' ELSE 'resume' END,
        set_queue_state.queue, set_queue_state.reason,
        jsonb_build_object('from', old_state, 'to', set_queue_state.new_state)
    );
    IF set_queue_state.new_state <> 'paused' THEN
        PERFORM orchestrator.ring(ARRAY[set_queue_state.queue]);
    END IF;
    RETURN set_queue_state.new_state;
END
$$;
