-- What the workers hold. Out: one row. Locks: none.
-- name: connections
-- The bench itself has this one, and no other while it looks.
SELECT count(*)::integer FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
