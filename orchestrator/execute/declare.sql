-- Declare the types that a process has handlers for, and its queues, so that a task enqueued by SQL gets the right
-- defaults. In: one array per column, sorted by name, so that two workers cannot deadlock. A row is written only if
-- something differs: otherwise fifty workers that start at once would leave fifty versions of it.
WITH queue AS (
    INSERT INTO orchestrator.queues (name)
    SELECT q.name
    FROM unnest(%(all_queues)s::text[]) AS q (name)
    WHERE NOT EXISTS (SELECT FROM orchestrator.queues AS k WHERE k.name = q.name)
    ON CONFLICT (name) DO NOTHING
)
INSERT INTO orchestrator.types AS t (
    name, queue, priority, max_attempts, timeout, backoff_base, backoff_factor, backoff_cap, backoff_jitter
)
SELECT
    d.name, d.queue, d.priority, d.max_attempts, make_interval(secs => d.timeout_seconds),
    make_interval(secs => d.base_seconds), d.factor, make_interval(secs => d.cap_seconds), d.jitter
FROM unnest(
    %(names)s::text[], %(queues)s::text[], %(priorities)s::smallint[], %(max_attempts)s::smallint[],
    %(timeouts)s::double precision[], %(bases)s::double precision[], %(factors)s::double precision[],
    %(caps)s::double precision[], %(jitters)s::double precision[]
) AS d (name, queue, priority, max_attempts, timeout_seconds, base_seconds, factor, cap_seconds, jitter)
-- Checked before the conflict, not in its WHERE: that would lock the row, and wait for an operator's transaction, even
-- if nothing differs.
WHERE NOT EXISTS (
    SELECT
    FROM orchestrator.types AS k
    WHERE k.name = d.name
        AND (k.queue, k.backoff_factor, k.backoff_jitter, k.backoff_base, k.backoff_cap)
            = (d.queue, d.factor, d.jitter, make_interval(secs => d.base_seconds), make_interval(secs => d.cap_seconds))
        AND (k.priority, k.max_attempts, k.timeout)
            IS NOT DISTINCT FROM (d.priority, d.max_attempts, make_interval(secs => d.timeout_seconds))
)
ON CONFLICT (name) DO UPDATE
SET queue = excluded.queue,
    priority = excluded.priority,
    max_attempts = excluded.max_attempts,
    timeout = excluded.timeout,
    backoff_base = excluded.backoff_base,
    backoff_factor = excluded.backoff_factor,
    backoff_cap = excluded.backoff_cap,
    backoff_jitter = excluded.backoff_jitter,
    declared_at = excluded.declared_at
