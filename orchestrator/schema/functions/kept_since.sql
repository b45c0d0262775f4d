-- The moment before which retention deletes, for a period of keeping. Bounded, whatever the column holds: a period that
-- overflows a timestamp would stop retention for all queues.
CREATE OR REPLACE FUNCTION orchestrator.kept_since(period interval)
RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$ SELECT orchestrator.clock() - least(greatest(period, interval '0'), interval '1000 years') $$;
