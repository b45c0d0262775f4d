-- Bound what the statements of this transaction may take. In: milliseconds, as text. Out: one row.
SELECT set_config('statement_timeout', %(milliseconds)s, true)
