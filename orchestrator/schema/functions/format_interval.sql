-- A duration as readable text: 0.4 s, 12 s, 3 min 20 s, 5 min, 2 h 5 min, 3 d 4 h. A negative one is 0 s.
CREATE OR REPLACE FUNCTION orchestrator.format_interval(span interval)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT CASE
        WHEN s.seconds < 0.05 THEN '0 s'
        WHEN s.seconds < 9.95 THEN round(s.seconds, 1) || ' s'
        WHEN s.seconds < 60 THEN floor(s.seconds) || ' s'
        WHEN s.seconds < 3600 THEN floor(s.seconds / 60) || ' min' || coalesce(' ' || nullif(floor(mod(s.seconds, 60)), 0) || ' s', '')
        WHEN s.seconds < 86400 THEN floor(s.seconds / 3600) || ' h' || coalesce(' ' || nullif(floor(mod(s.seconds, 3600) / 60), 0) || ' min', '')
        ELSE floor(s.seconds / 86400) || ' d' || coalesce(' ' || nullif(floor(mod(s.seconds, 86400) / 3600), 0) || ' h', '')
    END
    FROM (SELECT extract(epoch FROM format_interval.span) AS seconds) AS s
$$;
