-- Out: one row: whether this server is a standby.
SELECT pg_is_in_recovery()
