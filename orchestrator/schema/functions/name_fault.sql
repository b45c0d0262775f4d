-- The fault of a type's or a queue's name, as text; NULL: no fault. It prints only a short part of the name.
CREATE OR REPLACE FUNCTION orchestrator.name_fault(what text, name text)
RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT CASE
        WHEN name IS NULL THEN format('the %s is NULL', what)
        WHEN name = '' THEN format('the %s is empty', what)
        WHEN char_length(name) > 200 THEN format('the %s has %s characters; at most 200 are allowed', what, char_length(name))
        WHEN name ~ '[[:cntrl:]]' THEN format('the %s holds a control character', what)
    END
$$;
