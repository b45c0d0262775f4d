-- Nobody looks at the table any more: clock() is the schema's own again.
DROP TABLE IF EXISTS orchestrator.test_clock
