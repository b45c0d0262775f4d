-- Why is this task not running? One answer in words, and the command that helps, if there is one, on a line of its own:
-- SELECT orchestrator.explain(42). A program asks explanation(42), which says the reason as a word too.
CREATE OR REPLACE FUNCTION orchestrator.explain(task_id bigint)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$ SELECT concat_ws(E'\n', e.says, e.command) FROM orchestrator.explanation(explain.task_id) AS e $$;
