-- A text for a message: quoted, cut to 64 characters, and with ? in place of what does not print or turns letters around. As
-- shown() in task/duration.py.
CREATE OR REPLACE FUNCTION orchestrator.quote_short(value text)
RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT quote_nullable(
        regexp_replace(left(value, 64), U&'[[:cntrl:]\200B-\200F\2028-\202E\2066-\2069]', '?', 'g')
        || CASE WHEN char_length(value) > 64 THEN '…' ELSE '' END
    )
$$;
