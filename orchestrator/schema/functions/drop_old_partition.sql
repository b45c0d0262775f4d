-- Drop the oldest leaf of tasks_done of which no queue keeps anything: its whole day is further back than the longest
-- keep_finished, where the house's 7 days count too. Returns its name; NULL when none is due, or when those that are
-- due are in use: then a NOTICE says so, nothing is changed, and the caller's transaction goes on.
-- Locks: the leaf, then tasks_done, ACCESS EXCLUSIVE both. DROP needs them, and so would DETACH; but each of the two
-- takes tasks_done first and would hold it, and with it every finish, while it waits for a reader of the leaf.
-- So the leaf is locked first and not waited for: a report on it costs the workers nothing, and the leaf behind it is
-- tried. tasks_done is waited for once, at most 100 ms, which is also the longest that a finish can queue behind this;
-- a reader who has tasks_done and waits for the leaf is let go by the same 100 ms. Commit soon: until then no task
-- can finish. The bound is read in ISO and UTC whatever the session's settings; the name is only where to look.
CREATE OR REPLACE FUNCTION orchestrator.drop_old_partition()
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET lock_timeout = '100ms'
SET datestyle = 'ISO'
SET timezone = 'UTC'
AS $$
DECLARE
    due_leaves CONSTANT text := $query$
        SELECT c.relname::text
        FROM pg_inherits AS i
        JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'orchestrator.tasks_done'::regclass AND c.relname = coalesce($1, c.relname)
            AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)$')::timestamptz <= (
                SELECT least(orchestrator.clock() - interval '7 days', min(orchestrator.kept_since(q.keep_finished)))
                FROM orchestrator.queues AS q
            )
        ORDER BY c.relname
    $query$;
    leaf text;
    still_due text;
    got_leaf boolean;
BEGIN
    FOR leaf IN EXECUTE due_leaves USING NULL::text LOOP
        got_leaf := false;
        BEGIN
            EXECUTE format('LOCK TABLE ONLY orchestrator.%I IN ACCESS EXCLUSIVE MODE NOWAIT', leaf);
            got_leaf := true;
            LOCK TABLE ONLY orchestrator.tasks_done IN ACCESS EXCLUSIVE MODE;
            -- Again: while the locks were taken a queue may have been told to keep more.
            EXECUTE due_leaves INTO still_due USING leaf;
            IF still_due IS NULL THEN
                RETURN NULL;
            END IF;
            EXECUTE format('DROP TABLE orchestrator.%I', leaf);
            RETURN leaf;
        EXCEPTION
            -- The block is a savepoint: the locks it took are given back.
            WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
                RAISE NOTICE USING
                    MESSAGE = format('leaf %s is in use and was not dropped', leaf),
                    HINT = 'It is tried again; a long report on finished tasks keeps it as long as it runs.';
                -- Who has tasks_done has it for the next leaf as well.
                EXIT WHEN got_leaf;
        END;
    END LOOP;
    RETURN NULL;
END
$$;
