-- Which workers may be gone, and why.
-- `beacon_lost`: its row names a beacon, no session holds that beacon, and its last beat is not long ago. (After a
--     longer absence of the server, beacons prove less than the next beats: see `late`.)
-- `late`: its beat is older than `late` of its own dead_after, or lies further in the future than dead_after.
-- `orphans`: it does not live and holds tasks (a NULL row: it has no row at all).
-- `elsewhere`: names no worker. This server takes no writes: it is not the primary any more, and its rows about living
--     workers are old. A caller that then tries to write gets an error, and goes to the new primary.
-- Out also: the beat after which that holds, as text (Python cannot load every timestamp, and one row must not make all
-- fail), and the worker's dead_after in seconds. A hint: the write checks again.
-- With `spares_after_restart`, while the server is young (up_since), no beacon counts as lost: a restart, a crash or a
-- failover ends all beacons at once. This statement takes the key of each beacon, shared, until it ends; a worker that
-- takes its beacon again waits for that long.
-- The holders of tasks are read by leaps through the index, as in recover.sql. Locks: none.
-- Paths: workers_live_idx, workers_pkey, tasks_live_worker_idx.
WITH RECURSIVE holder AS (
    (
        SELECT t.worker_id
        FROM orchestrator.tasks_live AS t
        WHERE t.worker_id IS NOT NULL
        ORDER BY t.worker_id
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT t.worker_id
        FROM orchestrator.tasks_live AS t
        WHERE t.worker_id > h.worker_id
        ORDER BY t.worker_id
        LIMIT 1
    )
    FROM holder AS h
    WHERE h.worker_id IS NOT NULL
)
SELECT 'beacon_lost' AS why, w.id, w.beat_at::text, date_part('epoch', w.dead_after) AS dead_after_seconds
FROM orchestrator.workers AS w
WHERE w.state IN ('running', 'draining') AND w.beacon IS NOT NULL
    AND w.beat_at >= orchestrator.clock() - w.dead_after
    AND NOT (
        %(spares_after_restart)s
        AND statement_timestamp() - orchestrator.up_since() BETWEEN interval '0' AND w.dead_after
    )
    AND pg_try_advisory_xact_lock_shared(hashtextextended(w.id::text, w.beacon))
UNION ALL
SELECT 'late', w.id, w.beat_at::text, date_part('epoch', w.dead_after)
FROM orchestrator.workers AS w
WHERE w.state IN ('running', 'draining')
    AND (
        w.beat_at < orchestrator.clock() - %(late)s * w.dead_after
        OR w.beat_at > orchestrator.clock() + w.dead_after
    )
UNION ALL
SELECT 'orphans', h.worker_id, w.beat_at::text, NULL
FROM holder AS h
LEFT JOIN orchestrator.workers AS w ON w.id = h.worker_id
WHERE h.worker_id IS NOT NULL AND coalesce(w.state, 'dead') NOT IN ('running', 'draining')
UNION ALL
SELECT 'elsewhere', NULL, NULL, NULL
WHERE current_setting('transaction_read_only') = 'on'
