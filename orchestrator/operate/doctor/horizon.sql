-- The holders that stop vacuum from removing dead rows: sessions, prepared transactions and replication slots with a
-- snapshot, or with a transaction that has written (idle between its statements, it has a transaction id and no
-- snapshot). The oldest first; without this session and without vacuums. Out: kind; pid or name; application and user;
-- state; age in transactions; age in seconds (NULL for a slot); the statement that ends it. Without pg_read_all_stats,
-- other roles' sessions are hidden: then the first row has the kind 'blind' and the statement that grants the right.
SELECT 'blind', NULL, NULL, NULL, 2147483647, NULL, format('GRANT pg_read_all_stats TO %%I;', current_user)
WHERE NOT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
UNION ALL
SELECT
    'session', a.pid::text, format('%%s, user %%s', coalesce(nullif(a.application_name, ''), 'no name'), coalesce(a.usename, '?')), a.state,
    greatest(age(a.backend_xid), age(a.backend_xmin)), date_part('epoch', clock_timestamp() - a.xact_start),
    format('SELECT pg_terminate_backend(%%s);', a.pid)
FROM pg_stat_activity AS a
WHERE num_nonnulls(a.backend_xid, a.backend_xmin) > 0 AND a.pid <> pg_backend_pid()
    AND (a.datname = current_database() OR a.datname IS NULL)
    AND coalesce(a.backend_type, '') NOT IN ('autovacuum worker', 'parallel worker')
UNION ALL
SELECT
    'prepared transaction', p.gid, format('user %%s', p.owner), NULL, age(p.transaction),
    date_part('epoch', clock_timestamp() - p.prepared), format('ROLLBACK PREPARED %%L;', p.gid)
FROM pg_prepared_xacts AS p
WHERE p.database = current_database()
UNION ALL
SELECT
    'replication slot', s.slot_name, s.slot_type, CASE WHEN s.active THEN 'active' ELSE 'inactive' END, age(s.xmin), NULL,
    format('SELECT pg_drop_replication_slot(%%L);', s.slot_name)
FROM pg_replication_slots AS s
WHERE s.xmin IS NOT NULL
ORDER BY 5 DESC, 6 DESC NULLS LAST
LIMIT 20
