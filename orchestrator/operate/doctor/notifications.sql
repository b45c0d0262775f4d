-- name: listen
-- Listen for the notification that `ring` sends.
LISTEN orchestrator_doctor

-- name: ring
-- Send one notification. In: word: what it carries.
SELECT pg_notify('orchestrator_doctor', %(word)s)

-- name: backend
-- The process that serves this session. Out: one row.
SELECT pg_backend_pid()

-- name: queue
-- Out: one row: how full the queue of notifications is, from 0 to 1; and, if there is one, the session with the oldest
-- transaction, as its name and the statement that ends it. This session may be the one that fills the queue: a
-- listening session receives no notifications while its transaction is open.
SELECT
    pg_notification_queue_usage(), a.pid IS NOT NULL,
    format('%%s, pid %%s', coalesce(nullif(a.application_name, ''), 'no name'), a.pid),
    format('SELECT pg_terminate_backend(%%s);', a.pid)
FROM (SELECT) AS one
LEFT JOIN LATERAL (
    SELECT s.pid, s.application_name
    FROM pg_stat_activity AS s
    WHERE s.xact_start IS NOT NULL AND s.pid <> pg_backend_pid() AND s.backend_type = 'client backend'
    ORDER BY s.xact_start
    LIMIT 1
) AS a ON true
