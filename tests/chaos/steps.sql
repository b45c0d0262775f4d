-- Made of the trail, when all is over: what moved between leaves in two rows is one step again; who held a lease is told
-- by process; and each end of a lease has its cause. Indexes of the books first: the checker joins by task and lease.
CREATE INDEX ON chaos.trail (task_id, n);
CREATE INDEX ON chaos.ledger (task_id, lease);
CREATE INDEX ON chaos.journal (token);
CREATE INDEX ON chaos.effects (task_id, lease);
CREATE INDEX ON chaos.worker_events (worker_id);
CREATE INDEX ON chaos.worker_events (task_id);
CREATE INDEX ON chaos.ledger (who);

CREATE TABLE chaos.processes AS
SELECT DISTINCT l.worker_id, l.who
FROM (SELECT worker_id, who, row_number() OVER (PARTITION BY worker_id ORDER BY n) AS place FROM chaos.lives) AS l
WHERE l.place = 1;
ALTER TABLE chaos.processes ADD PRIMARY KEY (worker_id);

CREATE TABLE chaos.steps AS
WITH ordered AS (
    SELECT t.*,
        lag(t.op) OVER task AS op_before, lag(t.xid) OVER task AS xid_before,
        lag(t.old_status) OVER task AS old_status_before, lag(t.old_lease) OVER task AS old_lease_before,
        lag(t.old_worker) OVER task AS old_worker_before, lag(t.old_attempt) OVER task AS old_attempt_before,
        lag(t.old_losses) OVER task AS old_losses_before,
        lead(t.op) OVER task AS op_after, lead(t.xid) OVER task AS xid_after
    FROM chaos.trail AS t
    WINDOW task AS (PARTITION BY t.task_id ORDER BY t.n)
),
paired AS (
    SELECT o.*, o.op = 'I' AND o.op_before = 'D' AND o.xid_before = o.xid AS arrives
    FROM ordered AS o
    WHERE NOT (o.op = 'D' AND o.op_after = 'I' AND o.xid_after = o.xid) IS TRUE
)
SELECT p.n, p.at, p.xid, p.task_id,
    CASE WHEN p.arrives THEN p.old_status_before ELSE p.old_status END AS old_status,
    CASE WHEN p.arrives THEN p.old_lease_before ELSE p.old_lease END AS old_lease,
    CASE WHEN p.arrives THEN p.old_worker_before ELSE p.old_worker END AS old_worker,
    CASE WHEN p.arrives THEN p.old_attempt_before ELSE p.old_attempt END AS old_attempt,
    CASE WHEN p.arrives THEN p.old_losses_before ELSE p.old_losses END AS old_losses,
    p.new_status, p.new_lease, p.new_worker, p.new_attempt, p.new_finished_at, p.max_attempts, p.losses, p.said_lease, p.error_class,
    p.who, p.purpose, p.role, p.leader,
    p.role = 'chaos_operator' OR p.purpose = 'chaos supervisor' AND p.role = 'postgres' AS is_manual
FROM paired AS p;
CREATE INDEX ON chaos.steps (task_id, n);
CREATE INDEX ON chaos.steps (new_lease);

-- Where each task began: its first step, if it came from nowhere.
CREATE TABLE chaos.births AS
SELECT DISTINCT ON (t.task_id) t.task_id, t.token, t.type, t.key, t.at
FROM chaos.trail AS t
WHERE t.op = 'I'
ORDER BY t.task_id, t.n;
ALTER TABLE chaos.births ADD PRIMARY KEY (task_id);
CREATE INDEX ON chaos.births (token);

CREATE TABLE chaos.claims AS
SELECT s.task_id, s.new_lease AS lease, s.new_worker AS worker_id, p.who, s.at, s.xid
FROM chaos.steps AS s
LEFT JOIN chaos.processes AS p ON p.worker_id = s.new_worker
WHERE s.new_status = 'claimed' AND s.old_lease IS NULL;
CREATE INDEX ON chaos.claims (task_id, lease);

ANALYZE chaos.processes, chaos.steps, chaos.births, chaos.claims;

-- Each end of a lease. A cause that nothing records is NULL.
CREATE TABLE chaos.ends_of_leases AS
SELECT s.n, s.at, s.task_id, s.old_lease AS lease, s.old_status, s.new_status, s.old_worker, holder.who AS holder,
    s.said_lease, s.who, s.purpose, s.is_manual, s.leader, s.xid,
    CASE
        WHEN s.is_manual THEN CASE WHEN EXISTS (
            SELECT FROM orchestrator.audit AS a WHERE a.task_id = s.task_id AND a.action IN ('cancel', 'requeue', 'delete', 'run_at')
        ) THEN 'manual change' END
        WHEN s.purpose IN ('orchestrator lead', 'orchestrator housekeeping') THEN CASE
            -- One that ran may get its attempt back, too, if it was the last; but that is written into attempts.
            WHEN s.old_status = 'claimed' AND s.new_attempt < s.old_attempt AND s.error_class IS NOT NULL
                THEN 'worker lost before its start was seen'
            ELSE (
                SELECT CASE a.outcome WHEN 'lost' THEN 'worker lost' WHEN 'timeout' THEN 'timeout, by the leader' END
                FROM orchestrator.attempts AS a
                WHERE a.task_id = s.task_id AND a.attempt = s.old_attempt AND a.worker_id = s.old_worker
                    AND (a.outcome = 'lost' AND a.lease = s.old_lease OR a.outcome = 'timeout')
                    AND a.finished_at BETWEEN s.at - interval '10 s' AND s.at + interval '10 s'
                LIMIT 1
            )
        END
        WHEN s.new_status = 'completed' THEN 'completed'
        WHEN s.new_status = 'cancelled' THEN 'cancelled by its handler'
        WHEN s.new_attempt < s.old_attempt THEN CASE
            WHEN l.how = 'Snooze' THEN 'snoozed'
            WHEN l.execution IS NULL THEN 'given back before it began'
            WHEN EXISTS (
                SELECT FROM chaos.worker_events AS d
                WHERE d.worker_id = s.old_worker AND d.event = 'worker stopping' AND d.at < s.at
            ) THEN 'given back when its worker was told to stop'
            WHEN EXISTS (
                SELECT FROM chaos.worker_events AS d
                WHERE d.worker_id = s.old_worker AND d.event IN ('worker cut off', 'worker declared dead') AND d.at < s.at
            ) THEN 'given back by a worker that was cut off'
            -- A worker that drains for a suspect says nothing in its log; the attempt is on record.
            WHEN EXISTS (
                SELECT FROM orchestrator.attempts AS a
                WHERE a.task_id = s.task_id AND a.lease = s.old_lease AND a.outcome = 'released'
            ) THEN 'given back for a suspect'
        END
        ELSE (
            SELECT a.outcome FROM orchestrator.attempts AS a WHERE a.task_id = s.task_id AND a.lease = s.old_lease LIMIT 1
        )
    END AS cause
FROM chaos.steps AS s
LEFT JOIN chaos.processes AS holder ON holder.worker_id = s.old_worker
LEFT JOIN LATERAL (
    SELECT g.execution, (SELECT e.how FROM chaos.ledger AS e WHERE e.execution = g.execution AND e.what = 'ended') AS how
    FROM chaos.ledger AS g
    WHERE g.task_id = s.task_id AND g.lease = s.old_lease AND g.what = 'begun'
    LIMIT 1
) AS l ON true
WHERE s.old_lease IS NOT NULL AND s.old_status IN ('claimed', 'running')
    AND (s.new_lease IS DISTINCT FROM s.old_lease OR s.new_status NOT IN ('claimed', 'running'));
CREATE INDEX ON chaos.ends_of_leases (task_id, lease);

-- Executions under a lease that no claim gave. A claim does not wait for the disk, so a crash of the server may
-- forget the claim; but an entry of the ledger waits, and the claim was written before it. So it is one that was on
-- its way while the server crashed, and was written when it was back: tried each 0.05 s, or, by a worker that was
-- frozen, when it thaws.
CREATE TABLE chaos.orphans AS
SELECT o.task_id, o.lease, o.at, o.who, o.was_frozen, EXISTS (
        SELECT FROM chaos.faults AS f
        WHERE f.kind IN ('server crashed', 'postmaster killed', 'backend killed')
            AND f.at BETWEEN o.since - interval '3 s' AND o.at + interval '3 s'
    ) AS is_excused
FROM (
    SELECT l.task_id, l.lease, l.at, l.who, z.since IS NOT NULL AS was_frozen, least(l.at, z.since) AS since
    FROM chaos.ledger AS l
    LEFT JOIN LATERAL (
        SELECT min(f.since) AS since
        FROM chaos.freezes AS f
        WHERE f.who = l.who AND f.since < l.at AND f.until > l.at - interval '3 s'
    ) AS z ON true
    WHERE l.what = 'begun'
        AND NOT EXISTS (SELECT FROM chaos.claims AS c WHERE c.task_id = l.task_id AND c.lease = l.lease)
) AS o;

-- Of each process that wrote a log, for how long it was seen alive, and for what it wrote so many lines.
CREATE TABLE chaos.talk AS
SELECT g.who, sum(g.number) AS lines, greatest(1, extract(epoch FROM max(s.until) - min(s.since)))::numeric AS seconds,
    (SELECT count(*) FROM chaos.ledger AS l WHERE l.who = g.who AND l.what = 'begun') AS executions
FROM (SELECT who, sum(number) AS number FROM chaos.log GROUP BY who) AS g
LEFT JOIN (
    SELECT a.who, min(a.at) AS since, max(a.at) AS until
    FROM (
        SELECT who, at FROM chaos.samples
        UNION ALL SELECT who, at FROM chaos.worker_events
        UNION ALL SELECT who, at FROM chaos.ends
    ) AS a
    GROUP BY a.who
) AS s ON s.who = g.who
GROUP BY g.who;

-- Handlers that returned though their lease had been taken, or came to nothing: was their worker told, and how?
CREATE TABLE chaos.late AS
SELECT l.task_id, l.lease, l.who, l.at, CASE
    WHEN EXISTS (
        SELECT FROM chaos.worker_events AS t
        WHERE t.task_id = l.task_id AND t.who = l.who AND t.at BETWEEN l.at - interval '60 s' AND l.at + interval '60 s'
            AND t.event IN ('stale outcome', 'lease lost')
    ) THEN 'told: stale outcome, or lease lost'
    WHEN EXISTS (
        SELECT FROM chaos.worker_events AS t
        JOIN chaos.claims AS c ON c.worker_id = t.worker_id
        WHERE c.task_id = l.task_id AND c.lease = l.lease AND t.event IN ('worker cut off', 'worker declared dead')
    ) THEN 'told: cut off, or declared dead'
    -- It was on its way out of the handler, and in the ledger, when its worker hurried.
    WHEN EXISTS (
        SELECT FROM chaos.ends_of_leases AS e
        WHERE e.task_id = l.task_id AND e.lease = l.lease AND e.who = l.who AND e.cause LIKE 'given back%'
    ) THEN 'given back by its own worker'
    WHEN EXISTS (
        SELECT FROM chaos.ends AS e WHERE e.who = l.who AND e.status = 1 AND e.at < l.at + interval '60 s'
    ) THEN 'told: stopped, with outcomes that could not be written'
    WHEN EXISTS (
        SELECT FROM chaos.ends AS e WHERE e.who = l.who AND e.status <> 0 AND e.at < l.at + interval '60 s'
    ) THEN 'its process was killed first'
END AS told
FROM chaos.ledger AS l
WHERE l.what = 'ended' AND l.how = 'returned'
    AND NOT EXISTS (
        SELECT FROM chaos.ends_of_leases AS e
        WHERE e.task_id = l.task_id AND e.lease = l.lease AND e.holder = e.who AND e.new_status = 'completed'
    );

ANALYZE chaos.ends_of_leases, chaos.orphans, chaos.late;
