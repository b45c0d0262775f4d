-- Make the row of a queue that only tasks or types name; refuse an unknown name as a typing error. For an unknown name
-- it searches all live tasks.
CREATE OR REPLACE FUNCTION orchestrator.ensure_queue(queue text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM orchestrator.queues AS q WHERE q.name = ensure_queue.queue) THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM orchestrator.types AS t WHERE t.queue = ensure_queue.queue)
        AND NOT EXISTS (SELECT FROM orchestrator.tasks_live AS t WHERE t.queue = ensure_queue.queue)
        AND NOT EXISTS (SELECT FROM orchestrator.tasks_dead AS t WHERE t.queue = ensure_queue.queue)
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR005',
            MESSAGE = format('there is no queue %s', orchestrator.quote_short(ensure_queue.queue)),
            HINT = (
                SELECT format('The queues are %s%s.', string_agg(k.name, ', ' ORDER BY k.name), CASE WHEN count(*) = 20 THEN ', …' END)
                FROM (SELECT q.name FROM orchestrator.queues AS q ORDER BY q.name LIMIT 20) AS k
            );
    END IF;
    INSERT INTO orchestrator.queues (name) VALUES (ensure_queue.queue) ON CONFLICT DO NOTHING;
END
$$;
