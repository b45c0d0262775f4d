-- Row trigger on INSERT of workers: store the oid of the table in which the row is made, 0 if the tables are not at
-- home. A claim compares it with the oid of the table where it finds the row, which costs nothing; a call of at_home()
-- cost each claim up to 60 µs, about 1 % of a batch of 200.
CREATE OR REPLACE FUNCTION orchestrator.set_workplace()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    NEW.workplace := CASE WHEN orchestrator.at_home() THEN TG_RELID ELSE 0 END;
    RETURN NEW;
END
$$;
