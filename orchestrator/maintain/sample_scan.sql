-- Let the one statement that must read all live tasks plan for that, for the rest of the transaction. A worker's
-- session forbids such plans (postgres/session.sql). Up to PostgreSQL 17 the server then reads the whole table all the
-- same, but without parallel workers and with a sort (405 ms for a million tasks instead of 150). Out: the settings.
SELECT
    set_config('enable_seqscan', 'on', true),
    set_config('enable_bitmapscan', 'on', true)
