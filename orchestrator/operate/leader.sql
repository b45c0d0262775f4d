-- Who leads. Out: one row, or none: nobody does, its term has run out, or its beacon is out.
SELECT l.id, l.host, l.pid, l.term, l.leader_until, w.started_at, orchestrator.clock() - w.beat_at AS beat_age
FROM orchestrator.leader AS l
JOIN orchestrator.workers AS w ON w.id = l.id
