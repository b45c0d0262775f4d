-- Whether this is the place where these tasks run: every row of home says so, and there is one. Where it is not, in a
-- restored dump or a cloned database, no worker starts before resume_after_restore.
CREATE OR REPLACE FUNCTION orchestrator.at_home()
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$ SELECT coalesce((SELECT bool_and(i.at_home) FROM orchestrator.installation AS i), false) $$;
