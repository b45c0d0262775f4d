-- First step of a resignation: lock our own row, if we still lead in this term. Waits for a running duty of ours.
-- Locks: that row, FOR UPDATE. Out: one row, or none. Path: workers_pkey.
SELECT w.id
FROM orchestrator.workers AS w
WHERE w.id = %(id)s AND w.is_leader AND w.term = %(term)s
FOR UPDATE OF w
