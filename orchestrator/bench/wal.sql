-- How many bytes of WAL this server has written since it was made. Out: one row. Locks: none.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal_bytes
