-- Second step: lay the lead down, and wake the others, who elect at once. A newer term is never touched.
WITH resigned AS (
    UPDATE orchestrator.workers AS w
    SET is_leader = false, leader_until = NULL
    WHERE w.id = %(id)s AND w.is_leader AND w.term = %(term)s
    RETURNING w.id
)
SELECT pg_notify('orchestrator_workers', 'lead')
FROM resigned
