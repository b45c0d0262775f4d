-- All queues, with their counts and settings. In: exact, whether to count in any case (else as
-- orchestrator.queue_counts decides). Out: one row for each queue, by name. Takes no lock.
SELECT
    c.queue AS name, c.state, c.state_since, c.state_by, c.state_reason,
    c.pending AS ready, c.claimed + c.running AS held, c.scheduled, c.blocked, c.dead_letters,
    c.oldest_ready_age, c.next_due_at, c.as_of,
    q.priority, q.max_attempts, q.timeout, q.aging, q.keep_finished, q.keep_dead
FROM orchestrator.queue_counts(%(exact)s) AS c
LEFT JOIN orchestrator.queues AS q ON q.name = c.queue
ORDER BY c.queue
