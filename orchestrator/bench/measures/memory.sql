-- The connections that the workers hold: the bench itself has this one, and no other while it looks. Out: one row.
-- Locks: none.
SELECT count(*)::integer FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
