-- name: list
-- The workers. In: id, or NULL for all; everyone, whether to include ended workers. Out: rows, by host and pid. live:
-- as in orchestrator.is_alive. holds: the tasks that it holds, also those claimed ahead; busy: its slots in use.
-- Path: tasks_live_worker_idx. Takes no lock.
SELECT
    w.id, w.host, w.pid, w.version, w.queues, w.state, w.capacity,
    least(h.holds, w.capacity) AS busy, h.holds, w.started_at, orchestrator.clock() - w.started_at AS age,
    orchestrator.clock() - w.beat_at AS beat_age,
    w.dead_after, orchestrator.is_alive(w.id) AS live,
    w.is_leader AND w.leader_until > orchestrator.clock() AND NOT orchestrator.beacon_is_lost(w.id) AS leads, w.term
FROM orchestrator.workers AS w
CROSS JOIN LATERAL (SELECT count(*) AS holds FROM orchestrator.tasks_live AS t WHERE t.worker_id = w.id) AS h
WHERE (w.id = %(id)s OR %(id)s::uuid IS NULL)
    AND (%(everyone)s OR w.state IN ('running', 'draining'))
ORDER BY w.host, w.pid, w.started_at

-- name: drain
-- Let a worker finish its running tasks, and end. In: id, reason. Out: false if it is ending already.
SELECT orchestrator.drain_worker(%(id)s, %(reason)s)

-- name: stop
-- End a worker now: its tasks go to others. In: id, reason. Out: how many tasks were given back.
SELECT orchestrator.stop_worker(%(id)s, %(reason)s)
