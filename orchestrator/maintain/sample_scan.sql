-- For the rest of the transaction: let the one statement that must read all live tasks plan for that. A worker's session
-- forbids it (postgres/session.sql); up to PostgreSQL 17 it is then done all the same, but without parallel workers and
-- with a sort (405 ms for a million tasks instead of 150). Out: the settings.
SELECT
    set_config('enable_seqscan', 'on', true),
    set_config('enable_bitmapscan', 'on', true)
