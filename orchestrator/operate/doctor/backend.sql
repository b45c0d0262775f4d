-- The process that serves this session. Out: one row.
SELECT pg_backend_pid()
