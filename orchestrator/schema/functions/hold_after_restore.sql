-- Stop all claims here until resume_after_restore. For a copy that was made file by file (a base backup, a snapshot, a
-- restore to a point in time): the database cannot distinguish it from the original. Workers finish the tasks that they
-- hold and claim no more. Returns whether anything changed.
CREATE OR REPLACE FUNCTION orchestrator.hold_after_restore(reason text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    LOCK TABLE orchestrator.home IN SHARE ROW EXCLUSIVE MODE;
    IF NOT orchestrator.at_home() THEN
        RETURN false;
    END IF;
    -- This place matches no row, not even this one.
    INSERT INTO orchestrator.home (place) VALUES ('{}');
    UPDATE orchestrator.workers AS w SET workplace = 0 WHERE w.state IN ('running', 'draining');
    INSERT INTO orchestrator.audit (action, reason) VALUES ('hold_after_restore', hold_after_restore.reason);
    RETURN true;
END
$$;
