-- Delete the due tasks in some pages of one leaf. Out: how many were due, how many of them were deleted, the page to
-- look at next (NULL behind the last). Locks and path: see purge_finished.
SELECT p.due, p.deleted, p.next_page
FROM orchestrator.purge_finished(%(leaf)s, %(first_page)s, %(pages)s, %(batch_size)s) AS p
