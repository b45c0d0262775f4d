-- What an act on many tasks runs besides the statements that search.py composes.

-- name: begin
-- Begin a step of an act on many tasks: set the reason for audit, a short lock timeout and a statement timeout of a few
-- seconds, so that a range of ids that is too long is cut soon; and make the day's leaf, in case tasks are cancelled.
-- In: reason ('' for none). Out: one row. Holds for this transaction.
SELECT set_config('orchestrator.reason', %(reason)s, true), set_config('lock_timeout', '500ms', true),
    set_config('statement_timeout', '5s', true), orchestrator.ensure_partition()

-- name: workers_at_work
-- Whether any worker is at work on this database. Out: one row.
-- Path: workers_live_idx.
SELECT EXISTS (
    SELECT
    FROM orchestrator.workers AS w
    WHERE w.state IN ('running', 'draining') AND w.beat_at > orchestrator.clock() - interval '1 minute'
)
