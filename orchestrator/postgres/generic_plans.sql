-- Plan each prepared statement once, for any parameters. PostgreSQL would plan the end of a single task anew each time,
-- because its estimate for one task is lower than that for arrays of unknown length: 0.25 ms of the server's time for
-- each. The tests check the general plans of all statements of a worker.
SELECT set_config('plan_cache_mode', 'force_generic_plan', false)
