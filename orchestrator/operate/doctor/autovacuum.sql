-- Read the settings of autovacuum. Out: one row: whether autovacuum is on; whether statistics are counted; our tables
-- for which it is off; whether tasks_live has the settings of its own that the migration made; the statement that turns
-- autovacuum on for those tables; the statement that gives tasks_live its settings.
WITH turned_off AS (
    SELECT c.relname
    FROM pg_class AS c, pg_options_to_table(c.reloptions) AS o
    WHERE c.relnamespace = to_regnamespace('orchestrator') AND c.relkind = 'r'
        AND o.option_name = 'autovacuum_enabled' AND lower(o.option_value) IN ('false', 'off', 'no', '0')
)
SELECT
    current_setting('autovacuum')::boolean,
    current_setting('track_counts')::boolean,
    (SELECT array_agg(t.relname ORDER BY t.relname) FROM turned_off AS t),
    (
        SELECT count(*) > 0
        FROM pg_class AS c, pg_options_to_table(c.reloptions) AS o
        WHERE c.oid = to_regclass('orchestrator.tasks_live') AND o.option_name = 'autovacuum_vacuum_scale_factor'
    ),
    (
        SELECT string_agg(format('ALTER TABLE orchestrator.%%I RESET (autovacuum_enabled);', t.relname), E'\n')
        FROM turned_off AS t
    ),
    'ALTER TABLE orchestrator.tasks_live SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,'
    ' autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 1000, autovacuum_vacuum_cost_delay = 1);'
