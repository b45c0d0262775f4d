-- Third step: take the lead, if no worker has it. No term yet, and no time: `leader_until` is now. Two candidates may
-- find the lead vacant at once: they meet at workers_one_leader_idx, and one of them gets a unique violation. A
-- draining worker does not lead; neither does one whose row came here with a dump. Out: one row, or none.
-- Locks: its own row, after the incumbent's. Path: workers_pkey, workers_one_leader_idx.
UPDATE orchestrator.workers AS w
SET is_leader = true, term = coalesce(w.term, 0), leader_until = orchestrator.clock()
WHERE w.id = %(id)s AND w.state = 'running' AND w.workplace = w.tableoid
    AND NOT EXISTS (SELECT FROM orchestrator.workers AS other WHERE other.is_leader)
RETURNING w.id
