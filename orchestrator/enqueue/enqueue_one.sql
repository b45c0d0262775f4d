-- Enqueue one task without a key. In: all parameters as text, or NULL for an option that is left out. Out: its id.
SELECT orchestrator.enqueue(
    CAST(%(type)s AS pg_catalog.text),
    CAST(%(payload)s AS pg_catalog.jsonb),
    -- generated: sent arguments
    queue => CAST(%(queue)s AS pg_catalog.text),
    priority => CAST(CAST(%(priority)s AS pg_catalog.text) AS integer),
    run_at => CAST(CAST(%(run_at)s AS pg_catalog.text) AS pg_catalog.timestamptz),
    delay => CAST(CAST(%(delay)s AS pg_catalog.text) AS interval),
    max_attempts => CAST(CAST(%(max_attempts)s AS pg_catalog.text) AS integer),
    timeout => CAST(CAST(%(timeout)s AS pg_catalog.text) AS interval)
    -- end
)
