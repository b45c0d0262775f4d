-- All later statements of other sessions would wait behind a long wait for a lock.
SET LOCAL lock_timeout = '2s';

-- The enqueue functions check both with a sentence. Of an UPDATE, tasks_guard checks the priority and tasks_place
-- max_attempts.
ALTER TABLE orchestrator.tasks DROP CONSTRAINT tasks_priority_check;
ALTER TABLE orchestrator.tasks DROP CONSTRAINT tasks_max_attempts_check;

-- PostgreSQL prepares the expression of a generated column, and each CHECK, anew in each statement, and computes the
-- position again for each row that ends (docs/decisions/0023-position-is-written.md). Now the enqueue functions write it, tasks_fill
-- completes rows without it, and tasks_place keeps it right.
-- Some servers drop an expression only where a table has no grandchildren. There the day leaves leave tasks_done for the
-- moment, and PostgreSQL reads each of them, when it comes back, to see that its rows belong there.
DO $$
DECLARE
    leaves text[];
    bounds text[];
    leaf text;
    n integer := 0;
BEGIN
    ALTER TABLE orchestrator.tasks ALTER COLUMN position DROP EXPRESSION;
EXCEPTION WHEN feature_not_supported THEN
    SELECT
        coalesce(array_agg(c.oid::regclass::text ORDER BY c.oid), '{}'),
        coalesce(array_agg(pg_get_expr(c.relpartbound, c.oid) ORDER BY c.oid), '{}')
    INTO leaves, bounds
    FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'orchestrator.tasks_done'::regclass;
    FOREACH leaf IN ARRAY leaves LOOP
        EXECUTE format('ALTER TABLE orchestrator.tasks_done DETACH PARTITION %s', leaf);
        EXECUTE format('ALTER TABLE %s ALTER COLUMN position DROP EXPRESSION', leaf);
    END LOOP;
    ALTER TABLE orchestrator.tasks ALTER COLUMN position DROP EXPRESSION;
    FOREACH leaf IN ARRAY leaves LOOP
        n := n + 1;
        EXECUTE format('ALTER TABLE orchestrator.tasks_done ATTACH PARTITION %s %s', leaf, bounds[n]);
    END LOOP;
END
$$;
