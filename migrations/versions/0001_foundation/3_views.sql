-- `make render` writes this file: the views.

-- views/day_leaves.sql
-- The leaves of tasks_done, one for each UTC day: the table that holds the tasks finished on that day.
-- The day comes from the name, because a bound is printed in the reader's time zone. A drop must read the bound itself.
CREATE OR REPLACE VIEW orchestrator.day_leaves
WITH (security_invoker = true) AS
SELECT
    n.leaf,
    n.day::timestamp AT TIME ZONE 'UTC' AS starts_at,
    (n.day + 1)::timestamp AT TIME ZONE 'UTC' AS ends_at
FROM (
    SELECT c.relname::text AS leaf, to_date(right(c.relname::text, 8), 'YYYYMMDD') AS day
    FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'orchestrator.tasks_done'::regclass AND c.relname ~ '^tasks_done_[0-9]{8}$'
) AS n
ORDER BY n.leaf;

-- views/dead_letters.sql
-- The dead letters, newest first. The payload stays in orchestrator.tasks: a list should not carry it.
CREATE OR REPLACE VIEW orchestrator.dead_letters
WITH (security_invoker = true) AS
SELECT
    t.id,
    t.queue,
    t.type,
    t.attempt,
    t.max_attempts,
    t.losses,
    t.error ->> 'class' AS error_class,
    t.error ->> 'message' AS error_message,
    t.created_at,
    t.finished_at
FROM orchestrator.tasks_dead AS t
ORDER BY t.finished_at DESC;

-- views/failures.sql
-- The failures, grouped by fault, the most frequent first: failure_groups() with its default limit.
CREATE OR REPLACE VIEW orchestrator.failures
WITH (security_invoker = true) AS
SELECT f.group_id, f.type, f.error_class, f.message, f.dead_letters, f.retrying, f.first_seen, f.last_seen, f.sample_id
FROM orchestrator.failure_groups() AS f;

-- views/installation.sql
-- Where these tables are at home, and whether that is here. A restored dump, a cloned database or a replica has more
-- than one row, or a foreign one; after TRUNCATE there is none.
CREATE OR REPLACE VIEW orchestrator.installation
WITH (security_invoker = true) AS
SELECT
    h.database,
    h.since,
    h.place = here.place AS at_home,
    h.place,
    here.place AS here
FROM orchestrator.home AS h
CROSS JOIN LATERAL (
    SELECT ARRAY[
        h.xmin::text::oid,
        d.oid,
        'orchestrator.home'::regclass::oid,
        'orchestrator.tasks_live'::regclass::oid,
        'orchestrator.workers'::regclass::oid
    ] AS place
    FROM pg_catalog.pg_database AS d
    WHERE d.datname = current_database()
) AS here;

-- views/leader.sql
-- The worker that leads, if its term has not expired and its beacon is not lost.
CREATE OR REPLACE VIEW orchestrator.leader
WITH (security_invoker = true) AS
SELECT w.id, w.host, w.pid, w.term, w.leader_until
FROM orchestrator.workers AS w
WHERE w.is_leader AND w.leader_until > orchestrator.clock() AND NOT orchestrator.beacon_is_lost(w.id);

-- views/live_workers.sql
-- The workers that are alive, as is_alive() defines it. It searches pg_locks for each worker.
CREATE OR REPLACE VIEW orchestrator.live_workers
WITH (security_invoker = true) AS
SELECT
    w.id,
    w.host,
    w.pid,
    w.version,
    w.queues,
    w.capacity,
    w.state,
    (SELECT count(*) FROM orchestrator.tasks_live AS t WHERE t.worker_id = w.id) AS holds,
    w.started_at,
    orchestrator.clock() - w.beat_at AS last_beat_age,
    w.is_leader
FROM orchestrator.workers AS w
WHERE w.state IN ('running', 'draining') AND orchestrator.is_alive(w.id)
ORDER BY w.host, w.pid;

-- views/queue_summary.sql
-- One row for each queue: its state, how many tasks wait, run and are dead letters, and how long the oldest ready task
-- has waited. A queue that only tasks name is listed too. The leader's sample is made of it (maintain/sample.sql).
-- Grouped by status first: 300,000 tasks take 110 to 150 ms, and 150 to 170 ms with a FILTER for each count. A time that
-- Python cannot load is left out: one bad row must not hide all queues.
CREATE OR REPLACE VIEW orchestrator.queue_summary
WITH (security_invoker = true) AS
WITH live AS (
    SELECT
        s.queue,
        sum(s.tasks) FILTER (WHERE s.status = 'pending')::bigint AS pending,
        sum(s.tasks) FILTER (WHERE s.status = 'scheduled')::bigint AS scheduled,
        sum(s.tasks) FILTER (WHERE s.status = 'blocked')::bigint AS blocked,
        sum(s.tasks) FILTER (WHERE s.status = 'claimed')::bigint AS claimed,
        sum(s.tasks) FILTER (WHERE s.status = 'running')::bigint AS running,
        min(s.first_at) FILTER (WHERE s.status = 'pending') AS oldest_ready_at,
        min(s.first_at) FILTER (WHERE s.status = 'scheduled') AS next_due_at
    FROM (
        SELECT
            t.queue, t.status, count(*) AS tasks,
            min(t.run_at) FILTER (WHERE t.run_at BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC') AS first_at
        FROM orchestrator.tasks_live AS t
        GROUP BY t.queue, t.status
    ) AS s
    GROUP BY s.queue
),
dead AS (
    SELECT t.queue, count(*) AS dead_letters
    FROM orchestrator.tasks_dead AS t
    GROUP BY t.queue
),
names AS (
    SELECT q.name FROM orchestrator.queues AS q
    UNION
    SELECT l.queue FROM live AS l
    UNION
    SELECT d.queue FROM dead AS d
)
SELECT
    n.name AS queue,
    coalesce(q.state, 'active') AS state,
    coalesce(l.pending, 0) AS pending,
    coalesce(l.scheduled, 0) AS scheduled,
    coalesce(l.blocked, 0) AS blocked,
    coalesce(l.claimed, 0) AS claimed,
    coalesce(l.running, 0) AS running,
    coalesce(d.dead_letters, 0) AS dead_letters,
    orchestrator.clock() - l.oldest_ready_at AS oldest_ready_age,
    l.next_due_at,
    l.oldest_ready_at
FROM names AS n
LEFT JOIN orchestrator.queues AS q ON q.name = n.name
LEFT JOIN live AS l ON l.queue = n.name
LEFT JOIN dead AS d ON d.queue = n.name
ORDER BY n.name;

-- views/running_tasks.sql
-- The claimed and running tasks with their worker's host and pid, the longest first.
CREATE OR REPLACE VIEW orchestrator.running_tasks
WITH (security_invoker = true) AS
SELECT
    t.id,
    t.queue,
    t.type,
    t.status,
    t.attempt,
    t.max_attempts,
    t.claimed_at,
    t.started_at,
    orchestrator.clock() - t.claimed_at AS held_for,
    t.timeout,
    t.progress,
    t.worker_id,
    w.host,
    w.pid,
    orchestrator.clock() - w.beat_at AS last_beat_age
FROM orchestrator.tasks_live AS t
LEFT JOIN orchestrator.workers AS w ON w.id = t.worker_id
WHERE t.worker_id IS NOT NULL
ORDER BY t.claimed_at;

-- views/task_history.sql
-- The history of a task, one row for each event: SELECT * FROM orchestrator.task_history WHERE task_id = 42 ORDER BY
-- at.
CREATE OR REPLACE VIEW orchestrator.task_history
WITH (security_invoker = true) AS
SELECT t.id AS task_id, t.created_at AS at, 'created' AS event, NULL::text AS actor, 'in queue ' || t.queue AS detail
FROM orchestrator.tasks AS t
UNION ALL
SELECT t.id, t.started_at, 'started', t.worker_id::text, format('attempt %s of %s', t.attempt, t.max_attempts)
FROM orchestrator.tasks AS t
WHERE t.started_at IS NOT NULL
UNION ALL
SELECT t.id, t.finished_at, t.status, t.worker_id::text, t.error ->> 'message'
FROM orchestrator.tasks AS t
WHERE t.finished_at IS NOT NULL
    -- A manual cancel is in audit, with its actor and its reason, until retention deletes it.
    AND NOT (t.status = 'cancelled' AND EXISTS (
        SELECT
        FROM orchestrator.audit AS u
        WHERE u.task_id = t.id AND u.action = 'cancel' AND u.at = t.finished_at
    ))
UNION ALL
SELECT
    a.task_id, a.finished_at, 'attempt ' || a.outcome, a.worker_id::text,
    concat_ws(': ', 'attempt ' || a.attempt, a.error ->> 'class', a.error ->> 'message')
FROM orchestrator.attempts AS a
UNION ALL
SELECT u.task_id, u.at, u.action, u.actor, concat_ws(': ', u.reason, (u.details ->> 'from') || ' to ' || (u.details ->> 'to'))
FROM orchestrator.audit AS u
WHERE u.task_id IS NOT NULL;
