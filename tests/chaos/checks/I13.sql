SELECT 'samples' AS label, count(*) AS number FROM chaos.samples
UNION ALL
SELECT 'MiB of a process, at most', max(s.mib)::bigint FROM chaos.samples AS s
UNION ALL
SELECT 'threads of a process, at most', max(s.threads) FROM chaos.samples AS s
UNION ALL
SELECT 'open files of a process, at most', max(s.files) FROM chaos.samples AS s
UNION ALL
SELECT 'sockets of a process, at most', max(s.sockets) FROM chaos.samples AS s
UNION ALL
SELECT 'log lines', sum(t.lines) FROM chaos.talk AS t
UNION ALL
SELECT 'log lines a process-second', round(sum(t.lines) / sum(t.seconds)) FROM chaos.talk AS t
UNION ALL
SELECT 'log lines of a process-second, at most', round(max(t.lines / t.seconds)) FROM chaos.talk AS t;
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
-- One for each connection: the product's own (5, for moments 6), those it lends (3), the ledger's; the loop's; as many
-- again. Measured: 13.
SELECT NULL, format('%s had %s sockets open', s.who, max(s.sockets))
FROM chaos.samples AS s
GROUP BY s.who
HAVING max(s.sockets) > 24
UNION ALL
-- Measured: 4 a second in the mean, under fire, and 86 at most in the first three seconds of a life.
SELECT NULL, format('%s wrote %s lines in %s s, for %s executions', t.who, t.lines, round(t.seconds), t.executions)
FROM chaos.talk AS t
WHERE t.lines > 200 + 40 * t.seconds + 2 * t.executions
UNION ALL
SELECT NULL, format('%s wrote, %s times: %s', g.who, g.number, g.event)
FROM chaos.log AS g
WHERE g.event LIKE 'no event: Traceback%' OR g.event LIKE 'no event: Fatal%' OR g.event LIKE 'no event: Task %';
