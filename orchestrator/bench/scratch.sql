-- The bench's own database. In: its name, in place of {}.
-- FORCE ends whoever is still connected: workers that were killed a moment ago.
-- name: create
CREATE DATABASE {} TEMPLATE template0
-- name: drop
DROP DATABASE IF EXISTS {} WITH (FORCE)
