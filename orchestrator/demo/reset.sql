-- Drop the schema of an earlier demo, of any version of orchestrator.
-- Locks: ACCESS EXCLUSIVE on every table of the schema; gives up after 3 s, since an open transaction may hold a lock.
SET lock_timeout = '3s';
DROP SCHEMA IF EXISTS orchestrator CASCADE;
