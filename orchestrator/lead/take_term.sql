-- Last step: draw the term, after the lead is taken: no other worker can draw one before this transaction ends. A term
-- that was drawn first, and then waited for a lock or at the index, could begin after a later one had ended.
-- Out: the term, or no row: the lead was not taken. Locks: its own row. Path: workers_pkey.
UPDATE orchestrator.workers AS w
SET term = nextval('orchestrator.term_seq'),
    leader_until = orchestrator.clock() + make_interval(secs => %(term_seconds)s)
WHERE w.id = %(id)s AND w.is_leader AND w.leader_until <= orchestrator.clock()
RETURNING w.term
