-- Refuse a payload, or another JSON column by its name, that a worker could not read back: not an object, too large,
-- nested too deep, or with a number that Python does not parse. Otherwise true, so that a condition can call it. The
-- size is that of the text, because a 900-byte body can print as 13 MB.
-- A function and not a CHECK: a CHECK runs at every update, and its error would print the row.
CREATE OR REPLACE FUNCTION orchestrator.check_payload(payload jsonb, name text DEFAULT 'payload')
RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    body text;
    body_bytes integer;
    bytes_max integer;
BEGIN
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR002',
            MESSAGE = format('the %s must be a JSON object, not %s', name, coalesce(jsonb_typeof(payload), 'NULL')),
            HINT = 'Write an object, for example {"user_id": 1}; a payload''s members are the handler''s keyword arguments.';
    END IF;
    body := payload::text;
    body_bytes := octet_length(body);
    -- A body this short can have none of the faults below.
    IF body_bytes <= 128 THEN
        RETURN true;
    END IF;
    SELECT s.payload_bytes_max INTO STRICT bytes_max FROM orchestrator.settings AS s;
    IF body_bytes > bytes_max THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR002',
            MESSAGE = format('the %s is %s bytes of text; at most %s are allowed', name, body_bytes, bytes_max),
            HINT = 'Store the data elsewhere and enqueue a reference to it, or raise orchestrator.settings.payload_bytes_max.';
    END IF;
    -- In lax mode .** also unwraps arrays; strict mode counts each level once.
    IF jsonb_path_exists(payload, 'strict $.**{64}.type() ? (@ == "object" || @ == "array")') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR002',
            MESSAGE = format('the %s is nested more than 64 levels deep', name),
            HINT = 'Flatten it.';
    END IF;
    -- The regular expression limits the search to bodies with many digits in a row (it can count to 255); digits in a
    -- string are harmless.
    -- An integer may print as 4300 characters, with its sign; Python reads a number with a point as a float.
    IF body_bytes > 308 AND body ~ '[0-9]{255}' AND EXISTS (
        SELECT
        FROM jsonb_path_query(payload, 'strict $.** ? (@.type() == "number" && (@ >= 1e308 || @ <= -1e308))') AS n (value)
        WHERE octet_length(n.value::text) > 4300
            OR abs(n.value::numeric) > 1.7976931348623157e308 AND strpos(n.value::text, '.') > 0
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR002',
            MESSAGE = format('the %s holds a number of more than 4300 digits, or a decimal beyond 1.8e308', name),
            HINT = 'Python refuses to read such a number; send it as a string.';
    END IF;
    RETURN true;
END
$$;
