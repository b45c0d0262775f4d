-- The metrics of one queue, or of every queue: attempts by outcome, completed tasks per second, the share of attempts
-- that failed, and the times that they waited and ran (in seconds; 50th, 95th and 99th percentile).
-- One row for each queue, with type NULL, and one for each of its types. It covers the last `window`, from the
-- beginning of a minute on, or of an hour if the window is longer than one hour.
-- It reads statistics, and no task. Percentiles come from histograms, with an error of at most a tenth. With 50 types
-- it reads a day in tens of milliseconds.
CREATE OR REPLACE FUNCTION orchestrator.queue_metrics(
    INOUT queue text DEFAULT NULL,
    "window" interval DEFAULT interval '1 hour',
    OUT type text,
    -- generated: outcomes returned
    OUT completed bigint,
    OUT failed bigint,
    OUT timed_out bigint,
    OUT dead_lettered bigint,
    OUT cancelled bigint,
    OUT snoozed bigint,
    OUT put_back bigint,
    OUT released bigint,
    OUT lost bigint,
    -- end
    OUT per_second double precision,
    OUT error_rate double precision,
    OUT wait_p50_seconds double precision,
    OUT wait_p95_seconds double precision,
    OUT wait_p99_seconds double precision,
    OUT run_p50_seconds double precision,
    OUT run_p95_seconds double precision,
    OUT run_p99_seconds double precision
)
RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    WITH span AS (
        SELECT q.unit, date_trunc(q.unit, orchestrator.clock() - orchestrator.checked_span('window', queue_metrics."window"), 'UTC') AS since
        FROM (SELECT CASE WHEN queue_metrics."window" > interval '1 hour' THEN 'hour' ELSE 'minute' END AS unit) AS q
    ),
    part AS MATERIALIZED (
        SELECT
            s.queue, s.type,
            -- generated: outcomes of s
            s.completed, s.failed, s.timed_out, s.dead_lettered, s.cancelled, s.snoozed, s.put_back, s.released, s.lost,
            -- end
            s.wait, s.run
        FROM span AS n
        JOIN orchestrator.statistics AS s ON s.minute >= n.since
        WHERE n.unit = 'minute' AND (queue_metrics.queue IS NULL OR s.queue = queue_metrics.queue)
        UNION ALL
        SELECT
            s.queue, s.type,
            -- generated: outcomes of s
            s.completed, s.failed, s.timed_out, s.dead_lettered, s.cancelled, s.snoozed, s.put_back, s.released, s.lost,
            -- end
            s.wait, s.run
        FROM span AS n
        JOIN orchestrator.statistics_by_hour AS s ON s.hour >= n.since
        WHERE n.unit = 'hour' AND (queue_metrics.queue IS NULL OR s.queue = queue_metrics.queue)
    ),
    counted AS (
        SELECT
            p.queue, p.type,
            -- generated: outcomes summed of p
            sum(p.completed)::bigint AS completed, sum(p.failed)::bigint AS failed,
            sum(p.timed_out)::bigint AS timed_out, sum(p.dead_lettered)::bigint AS dead_lettered,
            sum(p.cancelled)::bigint AS cancelled, sum(p.snoozed)::bigint AS snoozed,
            sum(p.put_back)::bigint AS put_back, sum(p.released)::bigint AS released, sum(p.lost)::bigint AS lost,
            sum(p.failed + p.timed_out + p.dead_lettered + p.lost) AS errors,
            sum(p.completed + p.cancelled + p.failed + p.timed_out + p.dead_lettered + p.lost) AS ended
            -- end
        FROM part AS p
        GROUP BY GROUPING SETS ((p.queue), (p.queue, p.type))
    ),
    -- Sums double precision: the sum of a bigint is numeric, and takes twice as long.
    sized AS MATERIALIZED (
        SELECT p.queue, p.type, t.what, t.bucket, sum(t.count::double precision) AS count
        FROM part AS p
        CROSS JOIN LATERAL (
            SELECT 'wait', w.key, w.value FROM jsonb_each_text(p.wait) AS w
            UNION ALL
            SELECT 'run', r.key, r.value FROM jsonb_each_text(p.run) AS r
        ) AS t (what, bucket, count)
        GROUP BY p.queue, p.type, t.what, t.bucket
    ),
    ranked AS (
        SELECT
            s.queue, s.type, s.what, s.bucket, s.count,
            sum(s.count) OVER (PARTITION BY s.queue, s.type, s.what ORDER BY s.bucket) AS upto,
            sum(s.count) OVER (PARTITION BY s.queue, s.type, s.what) AS total
        FROM (
            SELECT z.queue, z.type, z.what, z.bucket::integer AS bucket, z.count FROM sized AS z
            UNION ALL
            SELECT z.queue, NULL, z.what, z.bucket::integer, sum(z.count) FROM sized AS z GROUP BY z.queue, z.what, z.bucket
        ) AS s
    ),
    found AS (
        -- Assumes that the times in a bucket are spread evenly between its bounds.
        SELECT r.queue, r.type, r.what, q.part,
            orchestrator.bucket_begins(r.bucket)
            + (orchestrator.bucket_begins(r.bucket + 1) - orchestrator.bucket_begins(r.bucket))
                * ((q.part * r.total - (r.upto - r.count)) / r.count) AS seconds
        FROM ranked AS r
        CROSS JOIN unnest(ARRAY[0.5, 0.95, 0.99]::double precision[]) AS q (part)
        WHERE r.upto >= q.part * r.total AND r.upto - r.count < q.part * r.total
    ),
    percentiles AS (
        SELECT
            f.queue, f.type,
            max(f.seconds) FILTER (WHERE f.what = 'wait' AND f.part = 0.5) AS wait_p50,
            max(f.seconds) FILTER (WHERE f.what = 'wait' AND f.part = 0.95) AS wait_p95,
            max(f.seconds) FILTER (WHERE f.what = 'wait' AND f.part = 0.99) AS wait_p99,
            max(f.seconds) FILTER (WHERE f.what = 'run' AND f.part = 0.5) AS run_p50,
            max(f.seconds) FILTER (WHERE f.what = 'run' AND f.part = 0.95) AS run_p95,
            max(f.seconds) FILTER (WHERE f.what = 'run' AND f.part = 0.99) AS run_p99
        FROM found AS f
        GROUP BY f.queue, f.type
    )
    SELECT
        c.queue, c.type,
        -- generated: outcomes of c
        c.completed, c.failed, c.timed_out, c.dead_lettered, c.cancelled, c.snoozed, c.put_back, c.released, c.lost,
        -- end
        c.completed / nullif(date_part('epoch', orchestrator.clock() - (SELECT n.since FROM span AS n)), 0) AS per_second,
        (c.errors / nullif(c.ended, 0))::double precision AS error_rate,
        p.wait_p50, p.wait_p95, p.wait_p99, p.run_p50, p.run_p95, p.run_p99
    FROM counted AS c
    LEFT JOIN percentiles AS p ON p.queue = c.queue AND coalesce(p.type, '') = coalesce(c.type, '')
    ORDER BY c.queue, c.type NULLS FIRST
$$;
