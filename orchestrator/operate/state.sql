-- What a task's handle asks, also in a user's session: so all is qualified.

-- name: read
-- The current state of one task. In: id. Out: one row, or none if it was deleted, pruned or is not committed yet. A
-- manual cancel leaves its reason in audit; a handler's cancel leaves it in error.
-- A producer may run this through a pooler, where other roles may set the search_path: so all names are qualified.
-- Path: the primary key of each leaf; audit_task_idx.
SELECT t.status, t.type, t.queue, t.attempt, t.max_attempts, t.result::pg_catalog.text, t.error::pg_catalog.text,
    t.progress::pg_catalog.text,
    t.created_at, t.run_at, t.started_at, t.finished_at,
    CASE
        WHEN t.status OPERATOR(pg_catalog.<>) 'cancelled' THEN NULL
        WHEN (t.error OPERATOR(pg_catalog.->>) 'class') OPERATOR(pg_catalog.=) 'Cancelled' THEN t.error OPERATOR(pg_catalog.->>) 'message'
        ELSE (
            SELECT a.reason FROM orchestrator.audit AS a
            WHERE a.task_id OPERATOR(pg_catalog.=) t.id AND a.action OPERATOR(pg_catalog.=) 'cancel'
            ORDER BY a.id DESC
            LIMIT 1
        )
    END
FROM orchestrator.tasks AS t
WHERE t.id OPERATOR(pg_catalog.=) %(id)s

-- name: cancel
-- Cancel one task. In: id, reason. The errors are those of orchestrator.cancel().
SELECT orchestrator.cancel(%(id)s, %(reason)s)
