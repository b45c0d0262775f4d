-- What new tasks of a queue get. In: queue; priority, max_attempts, timeout, aging, NULL where it stays as it is; clear;
-- reason. Out: one row: what holds now.
SELECT d.priority, d.max_attempts, d.timeout, d.aging
FROM orchestrator.set_defaults(
    %(queue)s, %(priority)s, %(max_attempts)s, %(timeout)s, %(aging)s, %(clear)s::text[], %(reason)s
) AS d
