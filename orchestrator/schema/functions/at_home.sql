-- Whether these tables are at home: home has at least one row, and every row matches this place. If not (a restored
-- dump or a cloned database), no worker starts before resume_after_restore.
CREATE OR REPLACE FUNCTION orchestrator.at_home()
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$ SELECT coalesce((SELECT bool_and(i.at_home) FROM orchestrator.installation AS i), false) $$;
