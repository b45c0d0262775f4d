-- Since when workers can beat on this server, as far as it knows: the latest of its start, its recovery from a crash
-- (which resets its statistics) and the last transaction that it replayed (a standby may have been up for long before
-- its promotion). Before that no worker could beat, and all beacons were lost at once. A start in the future means that
-- the clock has been set back since.
CREATE OR REPLACE FUNCTION orchestrator.up_since()
RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT greatest(pg_postmaster_start_time(), pg_last_xact_replay_timestamp(), b.stats_reset) FROM pg_stat_bgwriter AS b
$$;
