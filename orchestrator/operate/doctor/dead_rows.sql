-- The dead rows in the tables that change all the time. Out: table; dead rows; live rows; seconds since the last vacuum
-- (NULL: never); the statement that vacuums it. Estimates, from the counters of the server.
SELECT
    s.relname, s.n_dead_tup, s.n_live_tup,
    date_part('epoch', clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)),
    format('VACUUM (VERBOSE) orchestrator.%%I;', s.relname)
FROM pg_stat_all_tables AS s
WHERE s.schemaname = 'orchestrator' AND s.relname IN ('tasks_live', 'tasks_dead', 'workers', 'attempts', 'idempotency_keys')
ORDER BY s.n_dead_tup DESC
