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
