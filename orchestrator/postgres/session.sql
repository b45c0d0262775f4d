-- What every worker session sets for itself. lock_timeout lies below deadlock_timeout (1 s), so that of a
-- worker and a hand who wait for each other it is the worker who gives way.
-- idle_in_transaction_session_timeout: a worker that stands still between two statements of ours, with rows locked, lets
-- go of them well before it counts as dead: who takes its tasks back, or its lead, goes round a locked row and comes
-- again. Measured at 60 s: the task of a worker that froze before the COMMIT of its outcome ran again after 60 s, not 30.
-- tcp_keepalives: a host that is gone without a word, in the middle of a statement, has its locks for 30 s, not two hours.
-- enable_seqscan, enable_bitmapscan: a plan kept while the tables were empty reads them from end to end, and stays
-- for up to a minute when they fill up (until an autoanalyze). Measured: a worker that had idled ran the first minute
-- of a burst of 200,000 tasks at 500 tasks/s, now at 15,500. All that a worker asks has its index, and what is asked
-- in an order has an index in that order. jit: where a scan is forced all the same, its price of 10^10 would have
-- every statement compiled.
-- backend: who answers. A pooler (PgBouncer) between us and the server has told us another number when we connected.
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
