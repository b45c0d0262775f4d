-- Limit our session's search_path to PostgreSQL's own objects. Otherwise a function in `public` whose argument types
-- fit exactly wins over a polymorphic one of pg_catalog (cardinality(bigint[]), unnest(text[])), and runs with our
-- rights. Everything here is qualified, because the path is not safe yet. Temporary tables come last, where they shadow
-- nothing.
-- In: backend, the pid received at connect. Behind a pooler the pid differs, and nothing is set: the setting would stay
-- for the pooler's next client, which would not find its tables. See docs/howto/pgbouncer.md.
-- Out: one row if the path was set. Locks: none.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)
WHERE pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) %(backend)s
