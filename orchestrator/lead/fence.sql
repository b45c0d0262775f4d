-- The first statement of every duty's transaction: does this worker still lead, in this term? Out: one row, or none.
-- Locks: the leader's own row, FOR KEY SHARE: a takeover or a resignation waits for the end of this transaction. The
-- leader's beat changes no key, and does not wait.
-- The limits hold for the rest of the transaction: the server ends a leader that is paused in the middle of it, so that
-- the successor does not wait long. lock_timeout: a duty that waits for an operator's lock keeps the next one waiting.
-- In a restored copy no row is at its workplace, and no term of the original holds. Path: workers_pkey.
SELECT set_config('statement_timeout', %(limit)s, true),
    set_config('idle_in_transaction_session_timeout', %(limit)s, true),
    set_config('lock_timeout', '250ms', true)
FROM orchestrator.workers AS w
WHERE w.id = %(id)s AND w.is_leader AND w.term = %(term)s AND w.leader_until > orchestrator.clock()
    AND w.workplace = w.tableoid
FOR KEY SHARE OF w
