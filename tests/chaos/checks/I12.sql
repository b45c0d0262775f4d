SELECT 'told that nothing was enqueued' AS label, count(*) AS number FROM chaos.journal AS j WHERE j.verdict = 'refused'
UNION ALL
SELECT 'in doubt, and there', count(*) FROM chaos.journal AS j
WHERE j.verdict = 'in doubt' AND EXISTS (SELECT FROM chaos.births AS b WHERE b.token = j.token)
UNION ALL
SELECT 'in doubt, and not there', count(*) FROM chaos.journal AS j
WHERE j.verdict = 'in doubt' AND NOT EXISTS (SELECT FROM chaos.births AS b WHERE b.token = j.token)
UNION ALL
SELECT 'sets in doubt', count(DISTINCT (j.producer, j.n)) FROM chaos.journal AS j
WHERE j.verdict = 'in doubt' AND (j.way LIKE 'set%' OR j.way = 'COPY');
SELECT b.task_id, format('%s was refused (%s), and is there', j.token, j.said) AS what
FROM chaos.journal AS j
JOIN chaos.births AS b ON b.token = j.token
WHERE j.verdict = 'refused'
UNION ALL
SELECT min(b.task_id), format('of round %s of %s, %s of %s tasks are there', j.n, j.producer, count(b.task_id), count(*))
FROM chaos.journal AS j
LEFT JOIN chaos.births AS b ON b.token = j.token
WHERE j.verdict <> 'rolled back' AND j.key IS NULL
GROUP BY j.producer, j.n
HAVING count(b.task_id) NOT IN (0, count(*));
