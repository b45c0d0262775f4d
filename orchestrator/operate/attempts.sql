-- The attempts of a task that did not complete: the newest ones, in their order. In: id, most (how many).
-- Path: attempts_task_idx.
SELECT n.attempt, n.outcome, n.started_at, n.finished_at, n.worker_id,
    n.error ->> 'class' AS error_class, n.error ->> 'message' AS error_message, n.error ->> 'traceback' AS error_traceback
FROM (
    SELECT a.id, a.attempt, a.outcome, a.started_at, a.finished_at, a.worker_id, a.error
    FROM orchestrator.attempts AS a
    WHERE a.task_id = %(id)s
    ORDER BY a.id DESC
    LIMIT %(most)s
) AS n
ORDER BY n.id
