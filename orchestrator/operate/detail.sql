-- One whole task. In: id, bytes (longer JSON text is left out). Out: one row, or none.
-- Path: the primary key of each leaf.
SELECT t.id, t.status, t.queue, t.type, t.priority, t.attempt, t.max_attempts, t.losses, t.timeout,
    t.created_at, t.run_at, t.claimed_at, t.started_at, t.finished_at,
    t.worker_id, w.host AS worker_host, w.pid AS worker_pid, t.idempotency_key AS key, t.tags,
    CASE WHEN octet_length(t.payload::text) <= %(bytes)s THEN t.payload::text END AS payload,
    octet_length(t.payload::text) AS payload_bytes,
    CASE WHEN octet_length(t.metadata::text) <= %(bytes)s THEN t.metadata::text END AS metadata,
    CASE WHEN octet_length(t.result::text) <= %(bytes)s THEN t.result::text END AS result,
    CASE WHEN octet_length(t.progress::text) <= %(bytes)s THEN t.progress::text END AS progress,
    CASE WHEN octet_length(t.trace_context::text) <= %(bytes)s THEN t.trace_context::text END AS trace_context,
    t.error ->> 'class' AS error_class,
    t.error ->> 'message' AS error_message,
    t.error ->> 'traceback' AS error_traceback
FROM orchestrator.tasks AS t
LEFT JOIN orchestrator.workers AS w ON w.id = t.worker_id
WHERE t.id = %(id)s
