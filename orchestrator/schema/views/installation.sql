-- Where these tables are at home, and whether that is here. A restored dump, a cloned database or a replica has more
-- than one row, or a foreign one; after TRUNCATE there is none.
CREATE OR REPLACE VIEW orchestrator.installation
WITH (security_invoker = true) AS
SELECT
    h.database,
    h.since,
    h.place = here.place AS at_home,
    h.place,
    here.place AS here
FROM orchestrator.home AS h
CROSS JOIN LATERAL (
    SELECT ARRAY[
        h.xmin::text::oid,
        d.oid,
        'orchestrator.home'::regclass::oid,
        'orchestrator.tasks_live'::regclass::oid,
        'orchestrator.workers'::regclass::oid
    ] AS place
    FROM pg_catalog.pg_database AS d
    WHERE d.datname = current_database()
) AS here;
