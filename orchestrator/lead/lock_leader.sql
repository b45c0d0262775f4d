-- First step of an election: lock the row of whoever leads. Waits for a duty that is running under that term, and for
-- another candidate. Locks: that row, FOR UPDATE; nothing when the lead is vacant. Path: workers_one_leader_idx.
-- The outcome is committed durably: a term that a server crash forgot could be drawn again. The limits, as in fence.sql.
SELECT set_config('synchronous_commit', 'on', true), set_config('lock_timeout', '250ms', true),
    set_config('statement_timeout', '2s', true), set_config('idle_in_transaction_session_timeout', '2s', true), (
        SELECT w.id FROM orchestrator.workers AS w WHERE w.is_leader FOR UPDATE OF w
    )
