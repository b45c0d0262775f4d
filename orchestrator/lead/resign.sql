-- Second step: resign, and wake the other workers, which elect at once. Never touches a newer term.
WITH resigned AS (
    UPDATE orchestrator.workers AS w
    SET is_leader = false, leader_until = NULL
    WHERE w.id = %(id)s AND w.is_leader AND w.term = %(term)s
    RETURNING w.id
)
SELECT pg_notify('orchestrator_workers', 'lead')
FROM resigned
