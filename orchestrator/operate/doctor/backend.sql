-- Out: one row: who answers.
SELECT pg_backend_pid()
