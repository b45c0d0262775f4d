-- Make this place the home of the tasks. Only the migration that makes the tables and resume_after_restore call it. It
-- writes the row twice: only an existing row can name its own transaction (xmin), and in a savepoint that is not the
-- one that pg_current_xact_id() returns.
CREATE OR REPLACE FUNCTION orchestrator.set_home()
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    DELETE FROM orchestrator.home;
    INSERT INTO orchestrator.home (place) VALUES ('{}');
    UPDATE orchestrator.home AS h SET place = i.here FROM orchestrator.installation AS i;
$$;
