-- name: connections
-- Out: one row: the number of sessions on this server; how many roles that are not superusers may have; the statement
-- that lists the sessions by owner.
SELECT
    (SELECT sum(d.numbackends)::integer FROM pg_stat_database AS d) AS used,
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
        - coalesce(current_setting('reserved_connections', true)::integer, 0) AS at_most,
    'SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2 ORDER BY 3 DESC;' AS shows

-- name: clock
-- Out: one row: the server's clock, in seconds.
SELECT date_part('epoch', clock_timestamp())
