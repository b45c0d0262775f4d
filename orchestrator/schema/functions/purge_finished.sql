-- Delete tasks of one leaf of tasks_done that are older than their queue's keep_finished (7 days where the queue has no
-- row), in the pages from `first_page` on; at most `at_most` tasks. Returns how many were due, how many of those were
-- deleted (the others are locked, or too many for one call), and the next page to read, NULL after the last.
-- By pages, because a leaf has no index but its key: an index by queue or time would cost every finish.
-- A leaf that no longer exists has no further page. Locks: the rows, SKIP LOCKED. Path: a TID range.
CREATE OR REPLACE FUNCTION orchestrator.purge_finished(
    leaf text, first_page bigint, pages integer, at_most integer,
    OUT due integer, OUT deleted integer, OUT next_page bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    -- Only a leaf: never another table, whatever the argument is.
    place CONSTANT regclass := (
        SELECT i.inhrelid
        FROM pg_inherits AS i
        JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'orchestrator.tasks_done'::regclass AND c.relname = leaf
    );
BEGIN
    -- A block number has 32 bits.
    IF first_page IS NULL OR first_page NOT BETWEEN 0 AND 4294967294 OR pages IS NULL OR pages NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format(
                'first_page is %s and pages is %s; they must be a page of the table, and 1 to 1000000 pages',
                coalesce(first_page::text, 'NULL'), coalesce(pages::text, 'NULL')
            ),
            HINT = 'Begin with page 0, and go on with the next_page that the call before returned.';
    END IF;
    IF place IS NULL THEN
        due := 0;
        deleted := 0;
        RETURN;
    END IF;
    EXECUTE format(
        'WITH old AS MATERIALIZED ('
        ' SELECT t.ctid AS tid FROM %1$s AS t LEFT JOIN orchestrator.queues AS q ON q.name = t.queue'
        ' WHERE t.ctid >= $1 AND t.ctid < $2'
        ' AND t.finished_at < orchestrator.clock() - least(greatest(coalesce(q.keep_finished, interval ''7 days''), interval ''0''), interval ''1000 years'')'
        ' LIMIT $3'
        '), free AS ('
        ' SELECT t.ctid AS tid FROM %1$s AS t WHERE t.ctid = ANY (ARRAY(SELECT o.tid FROM old AS o))'
        ' FOR UPDATE SKIP LOCKED'
        '), gone AS ('
        ' DELETE FROM %1$s AS t WHERE t.ctid = ANY (ARRAY(SELECT f.tid FROM free AS f)) RETURNING 1'
        ') SELECT (SELECT count(*) FROM old AS o), (SELECT count(*) FROM gone AS g)',
        place
    )
    INTO due, deleted
    USING format('(%s,0)', first_page)::tid, format('(%s,0)', least(first_page + pages, 4294967294))::tid,
        orchestrator.row_limit(at_most);
    next_page := first_page + pages;
    IF next_page * current_setting('block_size')::bigint >= pg_relation_size(place) THEN
        next_page := NULL;
    END IF;
END
$$;
