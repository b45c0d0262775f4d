-- The feature's own objects. Which tasks have a lane is the test's choice: a trigger that sets `lane` and `holds`.
CREATE SCHEMA lane_limits;

-- `hold` is the lane, and the key of its permits. `running` counts the leases whose permits have not come back.
CREATE TABLE lane_limits.limits (
    hold bigint PRIMARY KEY,
    max_running bigint NOT NULL,
    running bigint NOT NULL DEFAULT 0,
    CHECK (running BETWEEN 0 AND max_running)
);

-- What was taken out of permits_returned, for those who count.
CREATE TABLE lane_limits.returned (hold bigint NOT NULL, permits bigint NOT NULL);

-- The alarm: more leases of one lane than its limit.
CREATE TABLE lane_limits.above (hold bigint NOT NULL, leases bigint NOT NULL, at timestamptz NOT NULL DEFAULT now());

-- Bring back the permits of ended leases, and wake workers. Lock order: limits by hold. With all limits locked, the
-- next statement sees every row that another fold has deleted.
CREATE FUNCTION lane_limits.fold() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    came bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM orchestrator.permits_returned AS p JOIN lane_limits.limits AS l ON l.hold = p.hold) THEN
        RETURN 0;
    END IF;
    PERFORM FROM lane_limits.limits AS l ORDER BY l.hold FOR UPDATE;
    WITH gone AS (
        DELETE FROM orchestrator.permits_returned AS p USING lane_limits.limits AS l
        WHERE p.hold = l.hold
        RETURNING p.hold, p.permits
    ),
    noted AS (INSERT INTO lane_limits.returned SELECT g.hold, g.permits FROM gone AS g),
    summed AS (SELECT g.hold, sum(g.permits) AS permits FROM gone AS g GROUP BY g.hold),
    changed AS (
        UPDATE lane_limits.limits AS l SET running = l.running - s.permits FROM summed AS s WHERE l.hold = s.hold
    )
    SELECT sum(s.permits) INTO came FROM summed AS s;
    PERFORM orchestrator.ring(ARRAY(
        SELECT DISTINCT t.queue FROM orchestrator.tasks_live AS t WHERE t.status = 'pending' AND t.lane IS NOT NULL
    ));
    RETURN coalesce(came, 0);
END
$$;

-- Claim as many tasks of each lane as its limit has left. Like every claim, it commits without waiting for the disk: a
-- crash of the server forgets the tasks and the counters together. Lock order: limits by hold, then tasks, SKIP LOCKED.
CREATE FUNCTION lane_limits.claim(a_lease bigint, a_worker uuid, some_queues text[], batch_size bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM orchestrator.workers AS w
        WHERE w.id = a_worker AND w.state IN ('running', 'draining') AND w.workplace = w.tableoid
    ) THEN
        RETURN;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM FROM lane_limits.limits AS l ORDER BY l.hold FOR UPDATE;
    WITH taken AS (
        UPDATE orchestrator.tasks_live AS t
        SET status = 'claimed', lease = a_lease, worker_id = a_worker, claimed_at = orchestrator.clock(),
            started_at = NULL, attempt = t.attempt + 1, holds = ARRAY[t.lane]
        WHERE t.ctid = ANY (ARRAY(
            SELECT found.ctid
            FROM lane_limits.limits AS l
            CROSS JOIN LATERAL (
                SELECT r.ctid
                FROM orchestrator.tasks_live AS r
                WHERE r.lane = l.hold AND r.status = 'pending' AND r.queue = ANY (some_queues) AND NOT EXISTS (
                    SELECT FROM orchestrator.queues AS q WHERE q.name = r.queue AND q.state = 'paused'
                )
                ORDER BY r.position, r.id
                LIMIT l.max_running - l.running
                FOR UPDATE SKIP LOCKED
            ) AS found
            LIMIT batch_size
        ))
        RETURNING t.lane
    ),
    counted AS (SELECT t.lane, count(*) AS permits FROM taken AS t GROUP BY t.lane)
    UPDATE lane_limits.limits AS l SET running = l.running + c.permits FROM counted AS c WHERE l.hold = c.lane;
    INSERT INTO lane_limits.above (hold, leases)
    SELECT l.hold, count(*)
    FROM lane_limits.limits AS l
    JOIN orchestrator.tasks_live AS t ON t.lane = l.hold AND t.lease IS NOT NULL
    GROUP BY l.hold, l.max_running
    HAVING count(*) > l.max_running;
END
$$;

CREATE INDEX lane_limits_idx ON orchestrator.tasks_live (lane, position, id) WHERE status = 'pending' AND lane IS NOT NULL;

GRANT USAGE ON SCHEMA lane_limits TO orchestrator_worker;
