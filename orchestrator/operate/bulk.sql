-- Begin a step of an act on many tasks: the reason that audit keeps, a short wait for anybody's lock, few seconds
-- for the step, so that a stretch that is too long is cut soon, and the day's leaf, should tasks be cancelled. In: reason
-- ('' for none). Out: one row. Holds for this transaction.
SELECT set_config('orchestrator.reason', %(reason)s, true), set_config('lock_timeout', '500ms', true),
    set_config('statement_timeout', '5s', true), orchestrator.ensure_partition()
