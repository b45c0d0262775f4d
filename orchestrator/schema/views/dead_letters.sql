-- The dead letters, newest first. The payload stays in orchestrator.tasks: a list should not carry it.
CREATE OR REPLACE VIEW orchestrator.dead_letters
WITH (security_invoker = true) AS
SELECT
    t.id,
    t.queue,
    t.type,
    t.attempt,
    t.max_attempts,
    t.losses,
    t.error ->> 'class' AS error_class,
    t.error ->> 'message' AS error_message,
    t.created_at,
    t.finished_at
FROM orchestrator.tasks_dead AS t
ORDER BY t.finished_at DESC;
