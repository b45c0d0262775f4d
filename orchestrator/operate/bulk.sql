-- Begin a step of an act on many tasks: set the reason for audit, a short lock timeout and a statement timeout of a few
-- seconds, so that a range of ids that is too long is cut soon; and make the day's leaf, in case tasks are cancelled.
-- In: reason ('' for none). Out: one row. Holds for this transaction.
SELECT set_config('orchestrator.reason', %(reason)s, true), set_config('lock_timeout', '500ms', true),
    set_config('statement_timeout', '5s', true), orchestrator.ensure_partition()
