-- Set the defaults of a queue's new tasks. In: queue; priority, max_attempts, timeout, aging (NULL: unchanged); clear;
-- reason. Out: one row: the new values.
SELECT d.priority, d.max_attempts, d.timeout, d.aging
FROM orchestrator.set_defaults(
    %(queue)s, %(priority)s, %(max_attempts)s, %(timeout)s, %(aging)s, %(clear)s::text[], %(reason)s
) AS d
