-- Add two histograms: bucket to count, as in statistics. A key that is no bucket number is an error; a number beyond
-- the last bucket counts for the last one.
CREATE OR REPLACE FUNCTION orchestrator.add_histograms(one jsonb, other jsonb)
RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT coalesce(jsonb_object_agg(h.bucket, h.count), '{}')
    FROM (
        SELECT least(greatest(b.bucket::integer, 0), 141) AS bucket, sum(b.count::bigint) AS count
        FROM (
            SELECT o.key, o.value FROM jsonb_each_text(one) AS o
            UNION ALL
            SELECT o.key, o.value FROM jsonb_each_text(other) AS o
        ) AS b (bucket, count)
        GROUP BY 1
    ) AS h
$$;
