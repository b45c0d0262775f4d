-- The workers whose beacon is gone, though their row says that one is held, and when they last beat. While the server is
-- young nobody is listed: a restart puts all beacons out at once. The key of each is taken, shared and for the length of
-- this transaction, which makes a worker that lights it again wait for so long.
-- Path: workers_live_idx.
SELECT w.id, w.beat_at
FROM orchestrator.workers AS w
WHERE w.state IN ('running', 'draining') AND w.beacon IS NOT NULL
    AND statement_timestamp() - pg_postmaster_start_time() > make_interval(secs => %(dead_after_seconds)s)
    AND pg_try_advisory_xact_lock_shared(hashtextextended(w.id::text, w.beacon))
