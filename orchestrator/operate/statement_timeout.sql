-- Set the statement timeout of this transaction. In: milliseconds, as text. Out: one row.
SELECT set_config('statement_timeout', %(milliseconds)s, true)
