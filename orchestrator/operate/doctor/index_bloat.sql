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
