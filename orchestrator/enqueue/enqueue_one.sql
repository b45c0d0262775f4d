-- Enqueue one task without a key. In: all of them texts, or NULL for what is left out. Out: its id.
SELECT orchestrator.enqueue(
    CAST(%(type)s AS text),
    CAST(%(payload)s AS jsonb),
    CAST(%(queue)s AS text),
    CAST(CAST(%(priority)s AS text) AS integer),
    CAST(CAST(%(run_at)s AS text) AS timestamptz),
    CAST(CAST(%(delay)s AS text) AS interval),
    max_attempts => CAST(CAST(%(max_attempts)s AS text) AS integer),
    timeout => CAST(CAST(%(timeout)s AS text) AS interval)
)
