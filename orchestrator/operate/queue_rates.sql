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
