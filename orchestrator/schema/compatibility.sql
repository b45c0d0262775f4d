-- The revision of the schema, and the oldest code that may still run on it.
SELECT v.version_num, s.oldest_code
FROM orchestrator.alembic_version AS v, orchestrator.settings AS s
