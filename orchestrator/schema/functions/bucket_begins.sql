-- The lower bound of a bucket of a histogram of times, in seconds; the upper bound is the next one's lower bound. There
-- are four buckets to each doubling from 64 microseconds on. Bucket 0 holds everything below that, and bucket 141
-- everything from 25 days on. Any number above 141 means 141: a power beyond a double would be an error, also for a
-- view of all rows. The same as orchestrator/task/buckets.py.
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
