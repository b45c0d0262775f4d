-- name: stop
-- Stop the database's clock for a test: clock() returns the moment in a table. The table has one row, and every role
-- that may use the schema can read it. Prepared statements are planned again, since the function is replaced. Needs the
-- schema's owner. A table that a killed test left behind is dropped, in the same transaction: all this is one message.
DROP TABLE IF EXISTS orchestrator.test_clock;
CREATE TABLE orchestrator.test_clock AS
SELECT pg_catalog.clock_timestamp() AS now;
GRANT SELECT ON orchestrator.test_clock TO PUBLIC;
CREATE OR REPLACE FUNCTION orchestrator.clock()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT t.now FROM orchestrator.test_clock AS t $$

-- name: set
-- Move the stopped clock. In: moment. Out: the moment as the database has it.
UPDATE orchestrator.test_clock
SET now = %(moment)s
RETURNING now

-- name: now
-- The time that every statement sees. Out: one moment.
SELECT orchestrator.clock()

-- name: drop_table
-- Drop the table of the stopped clock: clock() is the schema's own again, and no longer reads it.
DROP TABLE IF EXISTS orchestrator.test_clock
