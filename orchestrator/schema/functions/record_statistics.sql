-- Add a worker's counts since its last call to the statistics of this minute and of this hour. In: an array of
-- objects with the columns of the statistics, one for each queue and type: how many attempts ended in which way (a
-- missing count is 0), and for the attempts that ran to an end of their own the times that they waited and ran, as sums
-- of seconds and as histograms (bucket to count: bucket_begins). An attempt counts for the minute of this call, which is
-- late by a worker's interval at most. A worker that was declared dead meanwhile may still call this: it counts outcomes
-- that were written under its leases.
-- A worker may call this and cannot write the tables otherwise. Commits without waiting for the disk.
-- Locks: the rows of the minute, then those of the hour, both in the order of queue and type, so that two calls cannot
-- deadlock. Path: the primary keys.
CREATE OR REPLACE FUNCTION orchestrator.record_statistics(rows jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO orchestrator.statistics AS s (
        minute, queue, type,
        -- generated: outcomes
        completed, failed, timed_out, dead_lettered, cancelled, snoozed, put_back, released, lost,
        -- end
        wait_seconds, run_seconds, wait, run
    )
    SELECT
        date_trunc('minute', orchestrator.clock(), 'UTC'), r.queue, r.type,
        -- generated: outcomes or zero of r
        coalesce(r.completed, 0), coalesce(r.failed, 0), coalesce(r.timed_out, 0), coalesce(r.dead_lettered, 0),
        coalesce(r.cancelled, 0), coalesce(r.snoozed, 0), coalesce(r.put_back, 0), coalesce(r.released, 0),
        coalesce(r.lost, 0),
        -- end
        coalesce(r.wait_seconds, 0), coalesce(r.run_seconds, 0), orchestrator.add_histograms(r.wait, '{}'),
        orchestrator.add_histograms(r.run, '{}')
    FROM jsonb_populate_recordset(NULL::orchestrator.statistics, rows) AS r
    ORDER BY r.queue, r.type
    ON CONFLICT (minute, queue, type) DO UPDATE
    SET
        -- generated: outcomes added of s
        completed = s.completed + excluded.completed, failed = s.failed + excluded.failed,
        timed_out = s.timed_out + excluded.timed_out, dead_lettered = s.dead_lettered + excluded.dead_lettered,
        cancelled = s.cancelled + excluded.cancelled, snoozed = s.snoozed + excluded.snoozed,
        put_back = s.put_back + excluded.put_back, released = s.released + excluded.released,
        lost = s.lost + excluded.lost,
        -- end
        wait_seconds = s.wait_seconds + excluded.wait_seconds,
        run_seconds = s.run_seconds + excluded.run_seconds,
        wait = orchestrator.add_histograms(s.wait, excluded.wait),
        run = orchestrator.add_histograms(s.run, excluded.run);
    INSERT INTO orchestrator.statistics_by_hour AS s (
        hour, queue, type,
        -- generated: outcomes
        completed, failed, timed_out, dead_lettered, cancelled, snoozed, put_back, released, lost,
        -- end
        wait_seconds, run_seconds, wait, run
    )
    SELECT
        date_trunc('hour', orchestrator.clock(), 'UTC'), r.queue, r.type,
        -- generated: outcomes or zero of r
        coalesce(r.completed, 0), coalesce(r.failed, 0), coalesce(r.timed_out, 0), coalesce(r.dead_lettered, 0),
        coalesce(r.cancelled, 0), coalesce(r.snoozed, 0), coalesce(r.put_back, 0), coalesce(r.released, 0),
        coalesce(r.lost, 0),
        -- end
        coalesce(r.wait_seconds, 0), coalesce(r.run_seconds, 0), orchestrator.add_histograms(r.wait, '{}'),
        orchestrator.add_histograms(r.run, '{}')
    FROM jsonb_populate_recordset(NULL::orchestrator.statistics, rows) AS r
    ORDER BY r.queue, r.type
    ON CONFLICT (hour, queue, type) DO UPDATE
    SET
        -- generated: outcomes added of s
        completed = s.completed + excluded.completed, failed = s.failed + excluded.failed,
        timed_out = s.timed_out + excluded.timed_out, dead_lettered = s.dead_lettered + excluded.dead_lettered,
        cancelled = s.cancelled + excluded.cancelled, snoozed = s.snoozed + excluded.snoozed,
        put_back = s.put_back + excluded.put_back, released = s.released + excluded.released,
        lost = s.lost + excluded.lost,
        -- end
        wait_seconds = s.wait_seconds + excluded.wait_seconds,
        run_seconds = s.run_seconds + excluded.run_seconds,
        wait = orchestrator.add_histograms(s.wait, excluded.wait),
        run = orchestrator.add_histograms(s.run, excluded.run);
EXCEPTION
    WHEN data_exception OR integrity_constraint_violation OR cardinality_violation THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = 'record_statistics takes a JSON array with one object for each queue and type',
            HINT = 'For example [{"queue": "mail", "type": "mail.welcome", "completed": 2, "run": {"40": 2}, "run_seconds": 0.1}].';
END
$$;
