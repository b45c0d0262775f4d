-- Out: one row: sessions on this server, and how many there may be for those who are no superusers; what tells
-- who has them.
SELECT
    (SELECT sum(d.numbackends)::integer FROM pg_stat_database AS d) AS used,
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
        - coalesce(current_setting('reserved_connections', true)::integer, 0) AS at_most,
    'SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2 ORDER BY 3 DESC;' AS shows
