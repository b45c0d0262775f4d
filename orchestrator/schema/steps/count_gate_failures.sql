-- A step of a statement that fails tasks: count the failures for their gates. In: {of}, rows with `gates`.
gates_counted AS (
    INSERT INTO orchestrator.gate_changes (gate, ended, failed)
    SELECT g.gate, pg_catalog.count(*), pg_catalog.count(*)
    FROM {of} AS o CROSS JOIN pg_catalog.unnest(o.gates) AS g (gate)
    GROUP BY g.gate
),
