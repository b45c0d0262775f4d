-- What the session of a person's command sets for itself, and what it finds. In: backend: the number we were told when we
-- connected; statement_timeout, lock_timeout. Out: one row: whether it takes no writes; whether the server is a standby.
-- Behind a pooler (PgBouncer) another number answers, and nothing is set: the next transaction may be somebody else's, and
-- would have our timeouts.
SELECT
    current_setting('transaction_read_only')::boolean AS read_only,
    pg_is_in_recovery() AS standby,
    CASE
        WHEN pg_backend_pid() = %(backend)s THEN
            set_config('statement_timeout', %(statement_timeout)s, false)
            || set_config('lock_timeout', %(lock_timeout)s, false)
            || set_config('idle_in_transaction_session_timeout', '60s', false)
            || set_config('TimeZone', 'UTC', false)
            || set_config('jit', 'off', false)
    END AS settings
