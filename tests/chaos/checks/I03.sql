SELECT 'leases given' AS label, count(*) AS number FROM chaos.claims
UNION ALL
SELECT 'executions', count(*) FROM chaos.ledger AS l WHERE l.what = 'begun'
UNION ALL
SELECT 'executions under a claim that a crash forgot', count(*)
FROM chaos.ledger AS l
WHERE l.what = 'begun' AND NOT EXISTS (SELECT FROM chaos.claims AS c WHERE c.task_id = l.task_id AND c.lease = l.lease);
SELECT min(c.task_id) AS task_id, format('lease %s was given %s times', c.lease, count(DISTINCT c.xid)) AS what
FROM chaos.claims AS c
GROUP BY c.lease
HAVING count(DISTINCT c.xid) > 1 OR count(*) > count(DISTINCT c.task_id)
UNION ALL
SELECT l.task_id, format('%s executions under lease %s', count(*), l.lease)
FROM chaos.ledger AS l
WHERE l.what = 'begun'
GROUP BY l.task_id, l.lease
HAVING count(*) > 1
UNION ALL
SELECT l.task_id, format('lease %s was given to %s, and %s ran under it', l.lease, c.who, l.who)
FROM chaos.ledger AS l
JOIN chaos.claims AS c ON c.task_id = l.task_id AND c.lease = l.lease
WHERE l.what = 'begun' AND c.who <> l.who;
