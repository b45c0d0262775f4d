-- name: mark
-- A statement to prepare, and to recognise by its text.
SELECT 'orchestrator: is this statement passed on?'

-- name: name
-- The name that the prepared statement above has in the server's session. Asked in the same transaction, so that a
-- pooler gives it the same session. Out: one row; none, if a pooler has not passed the statement on as prepared.
SELECT p.name
FROM pg_catalog.pg_prepared_statements AS p
WHERE pg_catalog.strpos(p.statement, 'orchestrator: is this statement passed on?') OPERATOR(pg_catalog.>) 0
    AND pg_catalog.strpos(p.statement, 'pg_prepared_statements') OPERATOR(pg_catalog.=) 0
LIMIT 1

-- name: forget
-- In: the name, in place of the braces.
DEALLOCATE {}
