-- name: list
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

-- name: rates
-- The tasks that each queue has completed in the last 15 minutes. Out: a row for each queue and minute with a completed
-- task: the queue, how many minutes ago (0: the current minute), how many tasks; and how many seconds of it have
-- passed.
-- Path: statistics_pkey. Takes no lock.
SELECT
    s.queue,
    (date_part('epoch', date_trunc('minute', orchestrator.clock()) - s.minute) / 60)::integer AS minutes_ago,
    sum(s.completed)::bigint AS completed,
    date_part('second', orchestrator.clock()) AS seconds
FROM orchestrator.statistics AS s
WHERE s.minute > date_trunc('minute', orchestrator.clock()) - interval '15 minutes' AND s.minute <= orchestrator.clock()
GROUP BY s.queue, s.minute

-- name: names
-- The names of the queues that have a row, to suggest one for a mistyped name. Bounded, so that the comparison is
-- cheap.
SELECT q.name FROM orchestrator.queues AS q ORDER BY q.name LIMIT 10000

-- name: set_state
-- Pause, resume or drain a queue. In: queue, state, reason. Out: nothing. The errors are those of
-- orchestrator.set_queue_state().
SELECT orchestrator.set_queue_state(%(queue)s, %(state)s, %(reason)s)

-- name: set_defaults
-- Set the defaults of a queue's new tasks. In: queue; priority, max_attempts, timeout, aging (NULL: unchanged); clear;
-- reason. Out: one row: the new values.
SELECT d.priority, d.max_attempts, d.timeout, d.aging
FROM orchestrator.set_defaults(
    %(queue)s, %(priority)s, %(max_attempts)s, %(timeout)s, %(aging)s, %(clear)s::text[], %(reason)s
) AS d

-- name: set_retention
-- Set how long a queue keeps its ended tasks. In: queue; keep_finished, keep_dead (NULL: unchanged); reason. Out: one
-- row: the new values.
SELECT r.keep_finished, r.keep_dead
FROM orchestrator.set_retention(%(queue)s, %(keep_finished)s, %(keep_dead)s, %(reason)s) AS r
