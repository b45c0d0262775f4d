-- Out: one row: the revision the schema is at.
SELECT v.version_num FROM orchestrator.alembic_version AS v
