-- Drop the oldest leaf of tasks_done from which no queue keeps a task: its whole day is older than the longest
-- keep_finished, and older than the built-in 7 days. Returns its name; NULL if no leaf is due, or if the due leaves are
-- in use: then it raises a NOTICE and changes nothing, and the caller's transaction goes on.
-- Locks: the leaf, then tasks_done, ACCESS EXCLUSIVE both. DROP needs both locks, and so would DETACH; but each of the
-- two locks tasks_done first, and would hold it, and so stop every finish, while it waits for a reader of the leaf.
-- So this locks the leaf first and does not wait: a report on the leaf costs the workers nothing, and the next leaf is
-- tried. It waits for tasks_done once, at most 100 ms, so a finish can wait behind it for 100 ms at most. The same 100
-- ms
-- end a deadlock with a reader that has tasks_done and waits for the leaf. Commit soon: until then no task can finish.
-- The bound is read in ISO and UTC whatever the session's settings; the name only selects the candidates.
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
            -- Checks again: a queue's retention may have changed before the locks were taken.
            EXECUTE due_leaves INTO still_due USING leaf;
            IF still_due IS NULL THEN
                RETURN NULL;
            END IF;
            EXECUTE format('DROP TABLE orchestrator.%I', leaf);
            RETURN leaf;
        EXCEPTION
            -- The block is a savepoint: its rollback releases the locks that it took.
            WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
                RAISE NOTICE USING
                    MESSAGE = format('leaf %s is in use and was not dropped', leaf),
                    HINT = 'It is tried again; a long report on finished tasks keeps it as long as it runs.';
                -- A transaction that holds tasks_done holds it for the next leaf as well.
                EXIT WHEN got_leaf;
        END;
    END LOOP;
    RETURN NULL;
END
$$;
