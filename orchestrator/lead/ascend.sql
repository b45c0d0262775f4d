-- Last step: lead, under a new term, if nobody does. Out: the term, or no row. Two candidates who find the lead vacant at
-- once meet at workers_one_leader_idx, and one of them gets a unique violation.
-- Who drains does not lead. Locks: its own row, after the incumbent's. Path: workers_pkey, workers_one_leader_idx.
UPDATE orchestrator.workers AS w
SET is_leader = true,
    term = nextval('orchestrator.term_seq'),
    leader_until = orchestrator.clock() + make_interval(secs => %(term_seconds)s)
WHERE w.id = %(id)s AND w.state = 'running'
    AND NOT EXISTS (SELECT FROM orchestrator.workers AS other WHERE other.is_leader)
RETURNING w.term
