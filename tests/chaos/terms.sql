-- The leaders and their terms, in order, as each transaction left them: an election takes the lead first and the term then.
SELECT w.who, w.term
FROM (
    SELECT l.n, l.who, l.term, l.is_leader,
        (l.is_leader, l.term) IS DISTINCT FROM (lag(l.is_leader) OVER own, lag(l.term) OVER own) AS is_new
    FROM (SELECT DISTINCT ON (xid, worker_id) * FROM chaos.lives ORDER BY xid, worker_id, n DESC) AS l
    WINDOW own AS (PARTITION BY l.worker_id ORDER BY l.n)
) AS w
WHERE w.is_leader AND w.is_new
ORDER BY w.n
