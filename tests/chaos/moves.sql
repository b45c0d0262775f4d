-- The moves of all tasks in order, as tests/invariants judges them. A row is what it needs to know of the task.
SELECT s.task_id, s.is_manual, coalesce(s.who, s.purpose, s.role) AS name,
    CASE WHEN s.old_status IS NOT NULL THEN jsonb_build_object(
        'status', s.old_status, 'lease', s.old_lease, 'worker_id', s.old_worker, 'losses', s.old_losses
    ) END AS old,
    CASE WHEN s.new_status IS NOT NULL THEN jsonb_build_object(
        'id', s.task_id, 'status', s.new_status, 'lease', s.new_lease, 'worker_id', s.new_worker, 'losses', s.losses,
        'attempt', s.new_attempt, 'max_attempts', s.max_attempts, 'finished_at', s.new_finished_at
    ) END AS new
FROM chaos.steps AS s
ORDER BY s.n
