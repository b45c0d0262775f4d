-- The moment since which something is kept that is kept for so long. Bounded, whatever the column holds: a period that no
-- timestamp takes would stop retention for all queues.
CREATE OR REPLACE FUNCTION orchestrator.kept_since(period interval)
RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$ SELECT orchestrator.clock() - least(greatest(period, interval '0'), interval '1000 years') $$;
