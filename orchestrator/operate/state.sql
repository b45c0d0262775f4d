-- One task as it stands. In: id. Out: one row, or none when it was deleted, pruned or is not committed yet. Who
-- cancels by hand leaves the reason in audit; a handler leaves it in error.
-- Path: the primary key of each leaf; audit_task_idx.
SELECT t.status, t.type, t.queue, t.attempt, t.max_attempts, t.result::text, t.error::text, t.progress::text,
    t.created_at, t.run_at, t.started_at, t.finished_at,
    CASE
        WHEN t.status <> 'cancelled' THEN NULL
        WHEN t.error ->> 'class' = 'Cancelled' THEN t.error ->> 'message'
        ELSE (
            SELECT a.reason FROM orchestrator.audit AS a
            WHERE a.task_id = t.id AND a.action = 'cancel'
            ORDER BY a.id DESC
            LIMIT 1
        )
    END
FROM orchestrator.tasks AS t
WHERE t.id = %(id)s
