-- Take away what the demo before left, whatever version of orchestrator made it.
-- Locks: ACCESS EXCLUSIVE on every table of the schema; gives up after 3 s, since a person's open transaction may last.
SET lock_timeout = '3s';
DROP SCHEMA IF EXISTS orchestrator CASCADE;
