-- Set the defaults of a queue for new tasks whose producer and type give no value. An argument that is not given leaves
-- its default unchanged; `clear` names defaults to remove. Returns the new values. Existing tasks keep their values.
-- With `aging`, each point of priority equals that much waiting time; 1000 years means strict priority.
CREATE OR REPLACE FUNCTION orchestrator.set_defaults(
    queue text,
    INOUT priority integer DEFAULT NULL,
    INOUT max_attempts integer DEFAULT NULL,
    INOUT timeout interval DEFAULT NULL,
    INOUT aging interval DEFAULT NULL,
    clear text[] DEFAULT NULL,
    reason text DEFAULT NULL
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    old orchestrator.queues%ROWTYPE;
    cleared CONSTANT text[] := coalesce(set_defaults.clear, '{}');
    fault CONSTANT text := CASE
        WHEN num_nonnulls(set_defaults.priority, set_defaults.max_attempts, set_defaults.timeout, set_defaults.aging) = 0
            AND cleared = '{}' THEN 'set_defaults needs something to set or to clear'
        WHEN NOT cleared <@ '{priority,max_attempts,timeout,aging}'::text[]
            THEN 'only priority, max_attempts, timeout and aging can be cleared'
        -- generated: default faults of set_defaults
        WHEN set_defaults.priority NOT BETWEEN 0 AND 100
            THEN format('the priority is %s; it must lie between 0 and 100', set_defaults.priority)
        WHEN set_defaults.max_attempts NOT BETWEEN 1 AND 32767
            THEN format('max_attempts is %s; it must lie between 1 and 32767', set_defaults.max_attempts)
        WHEN set_defaults.timeout NOT BETWEEN interval '0' AND interval '100 years'
            THEN format('the timeout is %s; it must lie between 0 (none) and 100 years', set_defaults.timeout)
        -- end
        WHEN set_defaults.aging NOT BETWEEN interval '0' AND interval '1000 years'
            THEN format('aging is %s; it must lie between 0 and 1000 years', set_defaults.aging)
    END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = fault,
            HINT = 'For example: SELECT * FROM orchestrator.set_defaults(''mail'', priority => 75, clear => ''{timeout}'')';
    END IF;
    PERFORM orchestrator.ensure_queue(set_defaults.queue);
    SELECT * INTO old FROM orchestrator.queues AS q WHERE q.name = set_defaults.queue FOR UPDATE;
    priority := CASE WHEN 'priority' = ANY (cleared) THEN NULL ELSE coalesce(set_defaults.priority, old.priority) END;
    max_attempts := CASE WHEN 'max_attempts' = ANY (cleared) THEN NULL ELSE coalesce(set_defaults.max_attempts, old.max_attempts) END;
    timeout := CASE WHEN 'timeout' = ANY (cleared) THEN NULL ELSE coalesce(set_defaults.timeout, old.timeout) END;
    aging := CASE WHEN 'aging' = ANY (cleared) THEN interval '1000 years' ELSE coalesce(set_defaults.aging, old.aging) END;
    UPDATE orchestrator.queues AS q
    SET priority = set_defaults.priority, max_attempts = set_defaults.max_attempts, timeout = set_defaults.timeout,
        aging = set_defaults.aging
    WHERE q.name = set_defaults.queue;
    INSERT INTO orchestrator.audit (action, queue, reason, details)
    VALUES (
        'defaults', set_defaults.queue, set_defaults.reason,
        jsonb_build_object(
            'from', jsonb_build_object(
                'priority', old.priority, 'max_attempts', old.max_attempts, 'timeout', old.timeout, 'aging', old.aging
            ),
            'to', jsonb_build_object(
                'priority', set_defaults.priority, 'max_attempts', set_defaults.max_attempts,
                'timeout', set_defaults.timeout, 'aging', set_defaults.aging
            )
        )
    );
END
$$;
