-- Begin a step of an act on many tasks: the reason that audit keeps, a short wait for anybody's lock, and the day's leaf,
-- should tasks be cancelled. In: reason ('' for none). Out: one row. Holds for this transaction.
SELECT set_config('orchestrator.reason', %(reason)s, true), set_config('lock_timeout', '500ms', true),
    orchestrator.ensure_partition()
