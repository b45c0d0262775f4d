-- Drop the table of the stopped clock: clock() is the schema's own again, and no longer reads it.
DROP TABLE IF EXISTS orchestrator.test_clock
