-- Let a session of ours find only what PostgreSQL brings: a function in `public` whose argument types fit exactly wins
-- over a polymorphic one of pg_catalog (cardinality(bigint[]), unnest(text[])), and runs with our rights.
-- Everything here is qualified, because the path is not safe yet. Temporary tables come last, where they shadow nothing.
-- In: backend, the process that we connected to. Behind a pooler another one answers, and nothing is set: the setting would
-- stay for the pooler's next client, who would not find his tables. See docs/howto/pgbouncer.md.
-- Out: one row where it was set. Locks: none.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)
WHERE pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) %(backend)s
