-- Day leaves for today and a week ahead.
SELECT orchestrator.ensure_partition((orchestrator.clock() AT TIME ZONE 'UTC')::date + n)
FROM generate_series(0, 7) AS n;

-- This is the place where the tasks run.
SELECT orchestrator.set_home();
