-- The figures of queue_summary at a bounded cost: counted now if the tables are small, else the leader's last counts
-- (orchestrator.samples). `as_of` is the time of the counts; NULL: there are none. `exact` always counts, which takes
-- seconds with millions of tasks.
-- The size of the tables on disk decides: it needs no scan and is always current. An estimate of rows is out of date in
-- the first minutes of a burst. Measured: 150,000 tasks, 24 MB, took 230 ms on a busy machine.
CREATE OR REPLACE FUNCTION orchestrator.queue_counts(exact boolean DEFAULT false)
RETURNS TABLE (
    queue text,
    state text,
    state_since timestamptz,
    state_by text,
    state_reason text,
    pending bigint,
    scheduled bigint,
    blocked bigint,
    claimed bigint,
    running bigint,
    dead_letters bigint,
    oldest_ready_age interval,
    next_due_at timestamptz,
    as_of timestamptz
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    limit_bytes CONSTANT bigint := 8388608;
    size_bytes CONSTANT bigint := pg_relation_size('orchestrator.tasks_live') + pg_relation_size('orchestrator.tasks_dead');
BEGIN
    IF queue_counts.exact OR size_bytes <= limit_bytes THEN
        RETURN QUERY
        SELECT
            s.queue, s.state, q.state_since, q.state_by, q.state_reason, s.pending, s.scheduled, s.blocked, s.claimed,
            s.running, s.dead_letters, s.oldest_ready_age, s.next_due_at, orchestrator.clock()
        FROM orchestrator.queue_summary AS s
        LEFT JOIN orchestrator.queues AS q ON q.name = s.queue
        ORDER BY s.queue;
    ELSE
        -- The oldest task may be done by now: its age is that at the time of the sample.
        RETURN QUERY
        SELECT
            coalesce(q.name, s.queue), coalesce(q.state, 'active'), q.state_since, q.state_by, q.state_reason, s.pending,
            s.scheduled, s.blocked, s.claimed, s.running, s.dead_letters, s.sampled_at - s.oldest_ready_at, s.next_due_at,
            s.sampled_at
        FROM orchestrator.queues AS q
        FULL JOIN orchestrator.samples AS s ON s.queue = q.name
        ORDER BY 1;
    END IF;
END
$$;
