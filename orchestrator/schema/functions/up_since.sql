-- Since when this server has been one that workers can beat to, as far as it can tell: the last of its start, of its recovery
-- from a crash (which resets its statistics) and of what it replayed last (a standby may have been up for long when it
-- takes over). Nobody could beat before, and all beacons went out at once. A start that lies in the future tells of a
-- clock that has been set back since.
CREATE OR REPLACE FUNCTION orchestrator.up_since()
RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
    SELECT greatest(pg_postmaster_start_time(), pg_last_xact_replay_timestamp(), b.stats_reset) FROM pg_stat_bgwriter AS b
$$;
