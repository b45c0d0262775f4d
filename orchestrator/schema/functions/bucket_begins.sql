-- Where a bucket of a histogram of times begins, in seconds; it ends where the next one begins. Four to each doubling from
-- 64 microseconds on; below that, all is bucket 0, and from 25 days on bucket 141, which
-- stands for any number above it too: a power beyond every double would be an error, for a view of all rows as well. The same as orchestrator/task/buckets.py.
CREATE OR REPLACE FUNCTION orchestrator.bucket_begins(bucket integer)
RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT CASE WHEN b.n > 0
        THEN (4 + (b.n - 1) % 4) * power(2::double precision, (b.n - 1) / 4 + 4) / 1000000
        ELSE 0
    END
    FROM (SELECT least(bucket, 141) AS n) AS b
$$;
