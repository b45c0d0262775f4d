-- The leaves of tasks_done, one for each UTC day: the table that holds the tasks finished on that day.
-- The day comes from the name, because a bound is printed in the reader's time zone. A drop must read the bound itself.
CREATE OR REPLACE VIEW orchestrator.day_leaves
WITH (security_invoker = true) AS
SELECT
    n.leaf,
    n.day::timestamp AT TIME ZONE 'UTC' AS starts_at,
    (n.day + 1)::timestamp AT TIME ZONE 'UTC' AS ends_at
FROM (
    SELECT c.relname::text AS leaf, to_date(right(c.relname::text, 8), 'YYYYMMDD') AS day
    FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'orchestrator.tasks_done'::regclass AND c.relname ~ '^tasks_done_[0-9]{8}$'
) AS n
ORDER BY n.leaf;
