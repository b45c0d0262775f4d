-- The history of a task, one row for each event: SELECT * FROM orchestrator.task_history WHERE task_id = 42 ORDER BY
-- at.
CREATE OR REPLACE VIEW orchestrator.task_history
WITH (security_invoker = true) AS
SELECT t.id AS task_id, t.created_at AS at, 'created' AS event, NULL::text AS actor, 'in queue ' || t.queue AS detail
FROM orchestrator.tasks AS t
UNION ALL
SELECT t.id, t.started_at, 'started', t.worker_id::text, format('attempt %s of %s', t.attempt, t.max_attempts)
FROM orchestrator.tasks AS t
WHERE t.started_at IS NOT NULL
UNION ALL
SELECT t.id, t.finished_at, t.status, t.worker_id::text, t.error ->> 'message'
FROM orchestrator.tasks AS t
WHERE t.finished_at IS NOT NULL
    -- A manual cancel is in audit, with its actor and its reason, until retention deletes it.
    AND NOT (t.status = 'cancelled' AND EXISTS (
        SELECT
        FROM orchestrator.audit AS u
        WHERE u.task_id = t.id AND u.action = 'cancel' AND u.at = t.finished_at
    ))
UNION ALL
SELECT
    a.task_id, a.finished_at, 'attempt ' || a.outcome, a.worker_id::text,
    concat_ws(': ', 'attempt ' || a.attempt, a.error ->> 'class', a.error ->> 'message')
FROM orchestrator.attempts AS a
UNION ALL
SELECT u.task_id, u.at, u.action, u.actor, concat_ws(': ', u.reason, (u.details ->> 'from') || ' to ' || (u.details ->> 'to'))
FROM orchestrator.audit AS u
WHERE u.task_id IS NOT NULL;
