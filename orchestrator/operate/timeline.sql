-- The history of a task: the newest events, in their order. In: id, most (how many).
-- Path: the primary key of each leaf; attempts_task_idx; audit_task_idx.
SELECT n.at, n.event, n.actor, n.detail
FROM (
    SELECT h.at, h.event, h.actor, h.detail
    FROM orchestrator.task_history AS h
    WHERE h.task_id = %(id)s
    ORDER BY h.at DESC
    LIMIT %(most)s
) AS n
ORDER BY n.at
