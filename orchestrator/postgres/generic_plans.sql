-- Plan each prepared statement once, for any parameters. PostgreSQL would plan the end of a single task anew each time,
-- because it thinks one task cheaper than the arrays of unknown length for which the general plan is made: 0.25 ms of
-- the server's time for each. The tests check the general plans of all statements of a worker.
SELECT set_config('plan_cache_mode', 'force_generic_plan', false)
