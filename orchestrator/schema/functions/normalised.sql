-- An error message without the parts that differ from task to task, so that equal faults can be counted: quoted text,
-- uuids, paths, hexadecimal and numbers become <text>, <uuid>, <path>, <hex> and <n>. It uses the first 500 characters,
-- because a message may be a megabyte; NULL becomes ''. Each step reads the text once, so no message makes it slow.
CREATE OR REPLACE FUNCTION orchestrator.normalised(message text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    cleaned text := left(coalesce(normalised.message, ''), 500);
BEGIN
    -- An apostrophe inside a word is not a quote.
    cleaned := regexp_replace(cleaned, '"[^"]*"|`[^`]*`|(?<!\w)''[^'']*''(?!\w)', '<text>', 'g');
    IF cleaned ~ '[0-9/\\]' THEN
        cleaned := regexp_replace(cleaned, '\m[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\M', '<uuid>', 'gi');
        cleaned := regexp_replace(cleaned, '(?<![\w<])(?:[a-z]:\\|~?/)[^\s"''`()<>,;:]+', '<path>', 'gi');
        cleaned := regexp_replace(cleaned, '\m0x[0-9a-f]+\M|\m(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8,}\M', '<hex>', 'gi');
        cleaned := regexp_replace(cleaned, '[0-9]+(?:[.,:][0-9]+)*', '<n>', 'g');
    END IF;
    RETURN left(btrim(regexp_replace(cleaned, '\s+', ' ', 'g')), 200);
END
$$;
