-- A step of a statement that ends leases: give back their permits, one row for each key. In: {of}, rows with `holds`.
permits_returned AS (
    INSERT INTO orchestrator.permits_returned (hold, permits)
    SELECT h.hold, pg_catalog.count(*)
    FROM {of} AS o CROSS JOIN pg_catalog.unnest(o.holds) AS h (hold)
    GROUP BY h.hold
),
