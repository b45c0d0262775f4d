-- Let one transaction find only PostgreSQL's own objects; migrations qualify all of ours with their schema.
-- Locks: none.
SET LOCAL search_path = pg_catalog, pg_temp
