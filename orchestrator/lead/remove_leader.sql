-- Second step: remove a leader whose term is over, that was declared dead, or whose beacon has been gone for a while
-- without a beat since (`gone_id`, `gone_beat_at`: as a look saw it; this statement tries the beacon again).
-- A term that ends further ahead than any term could was set by a clock that has since been set back.
-- A statement of its own, after the lock: clock() is the moment when the statement began, not when the lock came.
-- Locks: the row that lock_leader.sql has locked. If the lead was vacant then and is not now: the new leader's row, FOR
-- UPDATE; without that the takeover would get past a running duty. Path: workers_one_leader_idx.
UPDATE orchestrator.workers AS w
SET is_leader = false, leader_until = NULL
WHERE w.is_leader
    AND w.id = ANY (ARRAY(SELECT l.id FROM orchestrator.workers AS l WHERE l.is_leader FOR UPDATE OF l))
    AND (
        w.leader_until <= orchestrator.clock()
        OR w.leader_until > orchestrator.clock() + make_interval(secs => 2 * %(term_seconds)s)
        OR w.state NOT IN ('running', 'draining')
        OR w.id = %(gone_id)s AND w.beat_at = %(gone_beat_at)s AND w.beacon IS NOT NULL
            AND pg_try_advisory_xact_lock_shared(hashtextextended(w.id::text, w.beacon))
    )
