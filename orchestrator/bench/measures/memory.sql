-- The workers' connections. Out: one row. Locks: none.
-- All but this one, which is the bench's only connection at that time.
SELECT count(*)::integer FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
