-- name: leaves
-- The day leaves that hold tasks to delete and are not dropped as a whole: some queue keeps longer than that day, and
-- others do not. Out: each such leaf, the oldest first, and a digest of the names of the queues whose tasks of that day
-- are all due. Once the default 7 days are over, all queues with that period count as one, whether they have rows or
-- not.
-- Locks nothing. Reads queues whole, and the catalog.
WITH periods AS (
    SELECT '' AS name, orchestrator.clock() - interval '7 days' AS kept_since
    UNION ALL
    SELECT q.name, orchestrator.kept_since(q.keep_finished)
    FROM orchestrator.queues AS q
    WHERE q.keep_finished <> interval '7 days'
),
longest AS (
    SELECT min(p.kept_since) AS kept_since FROM periods AS p
)
SELECT l.leaf, md5(string_agg(p.name, E'\n' ORDER BY p.name))
FROM orchestrator.day_leaves AS l
JOIN longest AS g ON l.ends_at > g.kept_since
JOIN periods AS p ON l.ends_at <= p.kept_since
GROUP BY l.leaf
ORDER BY l.leaf

-- name: delete
-- Delete the due tasks in some pages of one leaf. Out: how many were due, how many of them were deleted, the page to
-- look at next (NULL behind the last). Locks and path: see purge_finished.
SELECT p.due, p.deleted, p.next_page
FROM orchestrator.purge_finished(%(leaf)s, %(first_page)s, %(pages)s, %(batch_size)s) AS p
