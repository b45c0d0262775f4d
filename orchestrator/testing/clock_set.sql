-- Move the stopped clock. In: moment. Out: the moment as the database has it.
UPDATE orchestrator.test_clock
SET now = %(moment)s
RETURNING now
