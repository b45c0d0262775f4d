-- A worker begins: its row, under an id never used before. Once more, when the first answer was lost: that is no fault.
-- dead_after: the setting has no upper limit, the column has; a thousand days are as good as for ever.
INSERT INTO orchestrator.workers (id, host, pid, version, queues, types, capacity, dead_after)
VALUES (
    %(id)s, %(host)s, %(pid)s, %(version)s, %(queues)s::text[], %(types)s::text[], %(capacity)s,
    make_interval(secs => least(%(dead_after_seconds)s, 86400000))
)
ON CONFLICT (id) DO NOTHING
