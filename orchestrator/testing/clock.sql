-- The database's time in a test's hands: clock() answers what stands in a table. The table is of one row, and readable by
-- who may use the schema. What is prepared is planned anew, since the function was replaced. Needs the schema's owner.
-- One that a test left standing, which was killed, makes way: in the same transaction, all being one message.
DROP TABLE IF EXISTS orchestrator.test_clock;
CREATE TABLE orchestrator.test_clock AS
SELECT pg_catalog.clock_timestamp() AS now;
GRANT SELECT ON orchestrator.test_clock TO PUBLIC;
CREATE OR REPLACE FUNCTION orchestrator.clock()
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT t.now FROM orchestrator.test_clock AS t $$
