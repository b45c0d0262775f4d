-- What every worker session sets for itself. lock_timeout lies below deadlock_timeout (1 s), so that of a
-- worker and a hand who wait for each other it is the worker who gives way.
SELECT
    set_config('lock_timeout', '250ms', false),
    set_config('statement_timeout', '60s', false),
    set_config('idle_in_transaction_session_timeout', '60s', false)
