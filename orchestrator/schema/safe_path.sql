-- Let one transaction find only what PostgreSQL brings; what migrates names all of ours with its schema.
-- Locks: none.
SET LOCAL search_path = pg_catalog, pg_temp
