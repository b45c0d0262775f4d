-- One task as it stands. In: id. Out: one row, or none when it was deleted, pruned or is not committed yet.
-- Path: the primary key of each leaf.
SELECT t.status, t.type, t.queue, t.attempt, t.max_attempts, t.result::text, t.error::text, t.progress::text,
    t.created_at, t.run_at, t.started_at, t.finished_at
FROM orchestrator.tasks AS t
WHERE t.id = %(id)s
