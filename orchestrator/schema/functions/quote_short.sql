-- A text for a message: quoted, cut to 64 characters, with ? in place of characters that do not print or that change
-- the direction of text. The same as shown() in task/duration.py.
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
