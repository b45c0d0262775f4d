-- The leader. Out: one row; none if no worker leads, its term has expired, or its beacon is lost.
SELECT l.id, l.host, l.pid, l.term, l.leader_until, w.started_at, orchestrator.clock() - w.beat_at AS beat_age
FROM orchestrator.leader AS l
JOIN orchestrator.workers AS w ON w.id = l.id
