-- What revision the schema is at, and what the oldest code is that may still run on it.
SELECT v.version_num, s.oldest_code
FROM orchestrator.alembic_version AS v, orchestrator.settings AS s
