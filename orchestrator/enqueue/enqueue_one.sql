-- Enqueue one task without a key. In: payload, a JSON object; alike, its type and options as the members of one.
-- Out: its id.
SELECT orchestrator.enqueue(
    a.type, CAST(%(payload)s AS jsonb), a.queue, a.priority, a.run_at, a.delay, NULL, NULL,
    a.max_attempts, a.timeout, a.tags, a.metadata
)
FROM jsonb_to_record(CAST(%(alike)s AS jsonb)) AS a (
    type text, queue text, priority integer, run_at timestamptz, delay interval, max_attempts integer,
    timeout interval, tags text[], metadata jsonb
)
