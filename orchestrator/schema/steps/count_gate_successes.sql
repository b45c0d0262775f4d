-- A step of a statement that completes tasks: count them for their gates. In: {of}, rows with `gates`.
gates_counted AS (
    INSERT INTO orchestrator.gate_changes (gate, ended)
    SELECT g.gate, pg_catalog.count(*)
    FROM {of} AS o CROSS JOIN pg_catalog.unnest(o.gates) AS g (gate)
    GROUP BY g.gate
),
