-- Set up the session of an operator's command, and report its state. In: backend: the backend pid received at connect;
-- statement_timeout, lock_timeout. Out: one row: whether the session is read-only; whether the server is a standby.
-- Behind a pooler (PgBouncer) the pid differs, and nothing is set: another client's transaction may be next in this
-- server session, and would get our timeouts.
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
