SELECT 'leases ended' AS label, count(*) AS number FROM chaos.ends_of_leases;
SELECT e.task_id, format('lease %s ended %s times', e.lease, count(*)) AS what
FROM chaos.ends_of_leases AS e
GROUP BY e.task_id, e.lease
HAVING count(*) > 1;
