-- The time that every statement sees. Out: one moment.
SELECT orchestrator.clock()
