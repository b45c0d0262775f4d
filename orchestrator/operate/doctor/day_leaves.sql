-- Out: one row: whether today's leaf exists; how many leaves for later days exist; the statement that makes the leaves
-- for today and tomorrow.
SELECT
    coalesce(bool_or(l.starts_at <= orchestrator.clock() AND l.ends_at > orchestrator.clock()), false),
    count(*) FILTER (WHERE l.starts_at > orchestrator.clock()),
    'SELECT orchestrator.ensure_partition(), orchestrator.ensure_partition(current_date + 1);'
FROM orchestrator.day_leaves AS l
