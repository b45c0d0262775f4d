-- Out: one row: the server's clock, in seconds.
SELECT date_part('epoch', clock_timestamp())
