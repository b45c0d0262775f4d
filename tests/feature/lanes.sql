-- Give a lane to each task whose metadata names one. By its name the trigger comes after tasks_fill.
CREATE FUNCTION lane_limits.by_metadata() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.lane := (NEW.metadata ->> 'lane')::bigint;
    NEW.holds := coalesce(NEW.holds, '{}');
    RETURN NEW;
END
$$;
CREATE TRIGGER tasks_then_lane BEFORE INSERT ON orchestrator.tasks_live
    FOR EACH ROW WHEN (NEW.metadata ->> 'lane' IS NOT NULL) EXECUTE FUNCTION lane_limits.by_metadata();
