-- The first statement of every duty's transaction: do I still lead, in this very term? Out: one row, or none.
-- Locks: the leader's own row, FOR KEY SHARE: whoever would take the lead, or lay it down, waits for the end of this
-- transaction, while the leader's beat, which changes no key, does not.
-- The limits hold for the rest of the transaction: a leader that is paused in the middle of it is cut off by the server,
-- and cannot hold its successor up for long. lock_timeout: a duty that waits for a person's lock keeps the next waiting.
-- In a restored copy nobody's row is at its workplace, and no term of the original's holds. Path: workers_pkey.
SELECT set_config('statement_timeout', %(limit)s, true),
    set_config('idle_in_transaction_session_timeout', %(limit)s, true),
    set_config('lock_timeout', '250ms', true)
FROM orchestrator.workers AS w
WHERE w.id = %(id)s AND w.is_leader AND w.term = %(term)s AND w.leader_until > orchestrator.clock()
    AND w.workplace = w.tableoid
FOR KEY SHARE OF w
