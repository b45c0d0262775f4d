-- Write down every change of a task, with the name of the session that made it. What is rolled back is not in it.
CREATE SCHEMA watch;
CREATE TABLE watch.history (
    n bigint GENERATED ALWAYS AS IDENTITY, actor text, transaction xid8, task_id bigint, old jsonb, new jsonb
);
CREATE FUNCTION watch.write_down() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO watch.history (actor, transaction, task_id, old, new)
    VALUES (
        current_setting('application_name'), pg_current_xact_id(), coalesce(NEW.id, OLD.id),
        to_jsonb(OLD), to_jsonb(NEW)
    );
    RETURN NULL;
END
$$;
CREATE TRIGGER watch_history AFTER INSERT OR UPDATE OR DELETE ON orchestrator.tasks
    FOR EACH ROW EXECUTE FUNCTION watch.write_down();
