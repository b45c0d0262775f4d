-- The settings of every worker session. lock_timeout is below deadlock_timeout (1 s): when a worker and an operator's
-- statement wait for each other, the worker gives way.
-- idle_in_transaction_session_timeout: a worker that freezes between two of our statements, with rows locked, loses
-- these locks well before it counts as dead. The transactions that take back its tasks, or its lead, skip locked rows
-- and try again later. Measured at 60 s: the task of a worker that froze before the COMMIT of its outcome ran again
-- after 60 s, not 30.
-- tcp_keepalives: a host that disappears in the middle of a statement keeps its locks for 30 s, not two hours.
-- enable_seqscan, enable_bitmapscan: a plan made for empty tables scans them whole, and stays for up to a minute when
-- they fill up (until an autoanalyze). Measured: a worker that had idled ran the first minute of a burst of 200,000
-- tasks at 500 tasks/s, now at 15,500. Every query of a worker has its index, and every ordered query an index in that
-- order. jit: if a scan is forced all the same, its cost of 10^10 would have every statement compiled.
-- backend: the pid of the server process that answers. Behind a pooler (PgBouncer) the pid received at connect differs.
SELECT
    set_config('lock_timeout', '250ms', false),
    set_config('statement_timeout', '60s', false),
    set_config('idle_in_transaction_session_timeout', '10s', false),
    set_config('tcp_keepalives_idle', '15', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('jit', 'off', false),
    pg_backend_pid() AS backend
