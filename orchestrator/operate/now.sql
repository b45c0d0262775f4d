-- The database's time. Out: one row.
SELECT orchestrator.clock()
