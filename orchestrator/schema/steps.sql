-- Steps that several statements share: `make render` writes them into their marked parts. {of} is the step before.

-- name: permits_returned
-- A step of a statement that ends leases: give back their permits, one row for each key. In: {of}, rows with `holds`.
permits_returned AS (
    INSERT INTO orchestrator.permits_returned (hold, permits)
    SELECT h.hold, pg_catalog.count(*)
    FROM {of} AS o CROSS JOIN pg_catalog.unnest(o.holds) AS h (hold)
    GROUP BY h.hold
),

-- name: count_gate_successes
-- A step of a statement that completes tasks: count them for their gates. In: {of}, rows with `gates`.
gates_counted AS (
    INSERT INTO orchestrator.gate_changes (gate, ended)
    SELECT g.gate, pg_catalog.count(*)
    FROM {of} AS o CROSS JOIN pg_catalog.unnest(o.gates) AS g (gate)
    GROUP BY g.gate
),

-- name: count_gate_failures
-- A step of a statement that fails tasks: count the failures for their gates. In: {of}, rows with `gates`.
gates_counted AS (
    INSERT INTO orchestrator.gate_changes (gate, ended, failed)
    SELECT g.gate, pg_catalog.count(*), pg_catalog.count(*)
    FROM {of} AS o CROSS JOIN pg_catalog.unnest(o.gates) AS g (gate)
    GROUP BY g.gate
),
