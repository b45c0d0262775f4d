-- Explain why a task is not running: one sentence and, on a line of its own, the command that helps, if there is one:
-- SELECT orchestrator.explain(42). A program calls explanation(42), which also returns the reason as one word.
CREATE OR REPLACE FUNCTION orchestrator.explain(task_id bigint)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$ SELECT concat_ws(E'\n', e.says, e.command) FROM orchestrator.explanation(explain.task_id) AS e $$;
