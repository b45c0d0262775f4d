-- Say that this is the place where the tasks run. Called by the migration that makes the tables, by
-- resume_after_restore, and by nobody else. Written twice: only a row that is there can name its own transaction
-- (xmin), and in a savepoint that is not the one pg_current_xact_id() tells.
CREATE OR REPLACE FUNCTION orchestrator.set_home()
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    DELETE FROM orchestrator.home;
    INSERT INTO orchestrator.home (place) VALUES ('{}');
    UPDATE orchestrator.home AS h SET place = i.here FROM orchestrator.installation AS i;
$$;
