-- name: revision
-- Out: one row: the revision the schema is at.
SELECT v.version_num FROM orchestrator.alembic_version AS v

-- name: roles
-- Out: one row: our roles that this server lacks; the statement that creates them.
SELECT array_agg(r.name ORDER BY r.name), string_agg(format('CREATE ROLE %%I NOLOGIN;', r.name), E'\n' ORDER BY r.name)
FROM unnest(ARRAY['orchestrator_operator', 'orchestrator_producer', 'orchestrator_reader', 'orchestrator_worker']) AS r (name)
WHERE to_regrole(r.name) IS NULL

-- name: dead_rows
-- The dead rows in the tables that change all the time. Out: table; dead rows; live rows; seconds since the last vacuum
-- (NULL: never); the statement that vacuums it. Estimates, from the counters of the server.
SELECT
    s.relname, s.n_dead_tup, s.n_live_tup,
    date_part('epoch', clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)),
    format('VACUUM (VERBOSE) orchestrator.%%I;', s.relname)
FROM pg_stat_all_tables AS s
WHERE s.schemaname = 'orchestrator' AND s.relname IN ('tasks_live', 'tasks_dead', 'workers', 'attempts', 'idempotency_keys')
ORDER BY s.n_dead_tup DESC

-- name: index_bloat
-- The indexes of the tables that change all the time, the largest first. Out: name; bytes; entries, by the last vacuum
-- or analyze (-1: none yet); the statement that rebuilds it.
SELECT c.relname, pg_relation_size(c.oid), c.reltuples::bigint, format('REINDEX INDEX CONCURRENTLY orchestrator.%%I;', c.relname)
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY (ARRAY[
    to_regclass('orchestrator.tasks_live'), to_regclass('orchestrator.tasks_dead'), to_regclass('orchestrator.workers'),
    to_regclass('orchestrator.attempts'), to_regclass('orchestrator.idempotency_keys')
]::oid[])
ORDER BY 2 DESC

-- name: day_leaves
-- Out: one row: whether today's leaf exists; how many leaves for later days exist; the statement that makes the leaves
-- for today and tomorrow.
SELECT
    coalesce(bool_or(l.starts_at <= orchestrator.clock() AND l.ends_at > orchestrator.clock()), false),
    count(*) FILTER (WHERE l.starts_at > orchestrator.clock()),
    'SELECT orchestrator.ensure_partition(), orchestrator.ensure_partition(current_date + 1);'
FROM orchestrator.day_leaves AS l
