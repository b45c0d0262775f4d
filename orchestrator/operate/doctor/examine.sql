-- What a check's transaction sets for itself: it waits for nobody, takes no longer than a person waits, and finds its rows by
-- the indexes, as workers do, whatever the statistics say (postgres/session.sql). Out: the settings.
SELECT
    set_config('statement_timeout', '10s', true),
    set_config('lock_timeout', '1s', true),
    set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true),
    set_config('jit', 'off', true)
