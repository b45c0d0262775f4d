-- name: revision
-- The revision of the schema, and the oldest code that may still run on it.
SELECT v.version_num, s.oldest_code
FROM orchestrator.alembic_version AS v, orchestrator.settings AS s

-- name: origins
-- Where these tasks are at home. Out: at least one row: whether that is here; the database and the time, one row for
-- each recorded place that is not here.
SELECT orchestrator.at_home(), i.database, i.since
FROM (SELECT) AS always
LEFT JOIN orchestrator.installation AS i ON NOT i.at_home
ORDER BY i.since
