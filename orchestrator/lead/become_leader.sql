-- Third step: take the place, if nobody has it. No term yet, and no time: `leader_until` is now. Out: one row, or none.
-- Two candidates who find the lead vacant at once meet at workers_one_leader_idx, and one of them gets a unique violation.
-- Who drains does not lead, nor whose row came here with a dump. Locks: its own row, after the incumbent's. Path:
-- workers_pkey, workers_one_leader_idx.
UPDATE orchestrator.workers AS w
SET is_leader = true, term = coalesce(w.term, 0), leader_until = orchestrator.clock()
WHERE w.id = %(id)s AND w.state = 'running' AND w.workplace = w.tableoid
    AND NOT EXISTS (SELECT FROM orchestrator.workers AS other WHERE other.is_leader)
RETURNING w.id
