-- bounded: memory and threads of a process; and no worker prints what is no event
SELECT 'samples' AS label, count(*) AS number FROM chaos.samples
UNION ALL
SELECT 'MiB of a process, at most', max(s.mib)::bigint FROM chaos.samples AS s
UNION ALL
SELECT 'threads of a process, at most', max(s.threads) FROM chaos.samples AS s
UNION ALL
SELECT 'open files of a process, at most', max(s.files) FROM chaos.samples AS s
UNION ALL
SELECT 'log lines', sum(g.number) FROM chaos.log AS g;
SELECT NULL::bigint AS task_id, format('%s took %s MiB', s.who, round(max(s.mib))) AS what
FROM chaos.samples AS s
GROUP BY s.who
HAVING max(s.mib) > 200
UNION ALL
SELECT NULL, format('%s had %s threads', s.who, max(s.threads))
FROM chaos.samples AS s
GROUP BY s.who
HAVING max(s.threads) > 60
UNION ALL
SELECT NULL, format('%s had %s files open', s.who, max(s.files))
FROM chaos.samples AS s
GROUP BY s.who
HAVING max(s.files) > 80
UNION ALL
SELECT NULL, format('%s wrote, %s times: %s', g.who, g.number, g.event)
FROM chaos.log AS g
WHERE g.event LIKE 'no event: Traceback%' OR g.event LIKE 'no event: Fatal%' OR g.event LIKE 'no event: Task %';
