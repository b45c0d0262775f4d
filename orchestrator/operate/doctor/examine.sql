-- The settings of a check's transaction: it does not wait for locks, its statements have a short timeout, and it uses
-- the indexes, as workers do, whatever the statistics are (postgres/session.sql). Out: the settings.
SELECT
    set_config('statement_timeout', '10s', true),
    set_config('lock_timeout', '1s', true),
    set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true),
    set_config('jit', 'off', true)
