-- name: now
-- The database's time. Out: one row.
SELECT orchestrator.clock()

-- name: names
-- The names of the declared queues and types. Out: one row.
SELECT
    ARRAY(SELECT q.name FROM orchestrator.queues AS q ORDER BY q.name),
    ARRAY(SELECT t.name FROM orchestrator.types AS t ORDER BY t.name)

-- name: statement_timeout
-- Set the statement timeout of this transaction. In: milliseconds, as text. Out: one row.
SELECT set_config('statement_timeout', %(milliseconds)s, true)
