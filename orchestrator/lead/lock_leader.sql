-- First step of an election: lock the leader's row. Waits for a duty that runs under that term, and for another
-- candidate. Locks: that row, FOR UPDATE; nothing when the lead is vacant. Path: workers_one_leader_idx.
-- The election commits durably: a term that a server crash forgot could be drawn again. The limits are as in fence.sql.
SELECT set_config('synchronous_commit', 'on', true), set_config('lock_timeout', '250ms', true),
    set_config('statement_timeout', '2s', true), set_config('idle_in_transaction_session_timeout', '2s', true), (
        SELECT w.id FROM orchestrator.workers AS w WHERE w.is_leader FOR UPDATE OF w
    )
