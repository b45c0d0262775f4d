-- Statements that the demo shows at its end, with a dead letter's id for :id. The demo does not run them.

-- The dead letters, and why they failed
SELECT id, type, attempt, error_class, error_message FROM orchestrator.dead_letters LIMIT 5;

-- Run one of them again, with fresh attempts
UPDATE orchestrator.tasks SET status = 'pending' WHERE id = :id;

-- All its events, with your requeue
SELECT at, event, actor, detail FROM orchestrator.task_history WHERE task_id = :id ORDER BY at;
