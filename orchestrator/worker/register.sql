-- Insert the row of a new worker, under an id never used before. If the first answer was lost this runs again, without
-- an error. dead_after: the setting has no upper limit, but the column has. A thousand days mean "never".
-- The leader is notified: it may be at rest, because it was alone.
WITH born AS (
    INSERT INTO orchestrator.workers (id, host, pid, version, queues, types, capacity, dead_after)
    VALUES (
        %(id)s, %(host)s, %(pid)s, %(version)s, %(queues)s::text[], %(types)s::text[], %(capacity)s,
        make_interval(secs => least(%(dead_after_seconds)s, 86400000))
    )
    ON CONFLICT (id) DO NOTHING
)
SELECT pg_notify('orchestrator_workers', w.id::text) FROM orchestrator.workers AS w WHERE w.is_leader
