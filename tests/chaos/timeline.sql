-- All that the books say of one task, and which servers' deaths fell into its time.
WITH told AS (
    SELECT t.at, t.n, 'trail' AS book, concat_ws(' ',
        coalesce(t.old_status, '·'), '→', coalesce(t.new_status, '·'), 'lease', t.old_lease, '→', t.new_lease,
        'attempt', t.old_attempt, '→', t.new_attempt, 'losses', t.losses, t.error_class,
        'by', t.who, t.purpose, t.role, 'worker', left(coalesce(t.new_worker, t.old_worker)::text, 8), 'xid', t.xid
    ) AS text
    FROM chaos.trail AS t WHERE t.task_id = %(task_id)s
    UNION ALL
    SELECT l.at, 0, 'ledger', concat_ws(' ', l.what, l.how, 'attempt', l.attempt, 'lease', l.lease, 'in', l.who)
    FROM chaos.ledger AS l WHERE l.task_id = %(task_id)s
    UNION ALL
    SELECT e.at, 0, 'effect', concat_ws(' ', 'attempt', e.attempt, 'lease', e.lease, 'in', e.who)
    FROM chaos.effects AS e WHERE e.task_id = %(task_id)s
    UNION ALL
    SELECT a.finished_at, 0, 'attempt', concat_ws(' ', a.outcome, a.attempt, 'lease', a.lease, left(a.error ->> 'message', 120))
    FROM orchestrator.attempts AS a WHERE a.task_id = %(task_id)s
    UNION ALL
    SELECT a.at, 0, 'audit', concat_ws(' ', a.actor, a.action, a.details) FROM orchestrator.audit AS a WHERE a.task_id = %(task_id)s
    UNION ALL
    SELECT j.at, 0, 'journal', concat_ws(' ', j.producer, j.way, j.token, j.verdict, j.task_id, j.key, j.said)
    FROM chaos.journal AS j
    WHERE j.task_id = %(task_id)s OR j.token IN (SELECT b.token FROM chaos.births AS b WHERE b.task_id = %(task_id)s)
),
span AS (SELECT min(at) - interval '1 s' AS since, max(at) + interval '1 s' AS until FROM told)
SELECT at, book, text
FROM (
    SELECT at, n, book, text FROM told
    UNION ALL
    SELECT f.at, 0, 'fault', concat_ws(' ', f.kind, f.target, f.detail)
    FROM chaos.faults AS f, span AS s
    WHERE f.at BETWEEN s.since AND s.until
        AND f.kind IN ('server restarted', 'server crashed', 'postmaster killed', 'backend killed')
) AS everything
ORDER BY at, n
LIMIT %(limit)s
