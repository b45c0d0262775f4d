-- The sessions of a database. In: name. Out: one row a session.
SELECT FROM pg_stat_activity WHERE datname = %(name)s
