-- Out: one row: whether there is a leaf for today, and how many for the days to come; what makes that of today and
-- tomorrow's.
SELECT
    coalesce(bool_or(l.starts_at <= orchestrator.clock() AND l.ends_at > orchestrator.clock()), false),
    count(*) FILTER (WHERE l.starts_at > orchestrator.clock()),
    'SELECT orchestrator.ensure_partition(), orchestrator.ensure_partition(current_date + 1);'
FROM orchestrator.day_leaves AS l
