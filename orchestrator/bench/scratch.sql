-- The bench's own database, and the roles of its tables. In: a name, in place of {}.
-- FORCE ends the sessions that are still connected: those of workers that were killed a moment ago.
-- name: create
CREATE DATABASE {} TEMPLATE template0
-- name: drop
DROP DATABASE IF EXISTS {} WITH (FORCE)
-- name: roles
SELECT rolname FROM pg_roles
WHERE rolname IN ('orchestrator_producer', 'orchestrator_worker', 'orchestrator_operator', 'orchestrator_reader')
-- name: drop_role
DROP ROLE IF EXISTS {}
