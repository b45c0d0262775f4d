-- Row trigger: complete and check a new task. A new task has no position, which no producer may write. Columns that the
-- INSERT leaves out come from the type, then the queue, then the built-in default. SECURITY DEFINER, because a
-- producer may not read these two tables, nor write keys.
-- One query finds the defaults, whether a sleeping worker could run the task, and whether all is usual. Only if it is
-- not, the rest looks for the fault. Expressions are expensive: each transaction pays for each of them anew, by its
-- length.
CREATE OR REPLACE FUNCTION orchestrator.fill_new_task()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    into_queue text;
    declared boolean;
    draining boolean;
    awaited boolean;
    fault text;
BEGIN
    -- The usual case: type and queue are declared, so their names are checked already; and no other column is given.
    IF num_nonnulls(
            NEW.id, NEW.run_at, NEW.idempotency_key, NEW.lease, NEW.worker_id, NEW.claimed_at, NEW.started_at,
            NEW.finished_at, NEW.result, NEW.error, NEW.progress,
            -- generated: simple options of NEW
            NEW.priority, NEW.max_attempts, NEW.timeout, NEW.tags, NEW.metadata, NEW.trace_context
            -- end
        ) = 0
        AND NEW.attempt + NEW.losses = 0 AND NEW.status = 'pending'
        AND jsonb_typeof(NEW.payload) = 'object' AND octet_length(NEW.payload::text) <= 128
    THEN
        SELECT
            nextval('orchestrator.tasks_id_seq'),
            q.name,
            -- generated: defaults
            coalesce(t.priority, q.priority, 50),
            coalesce(t.max_attempts, q.max_attempts, 4),
            coalesce(t.timeout, q.timeout, interval '300 seconds'),
            -- end
            orchestrator.clock(),
            (date_part('epoch', q.aging) * 1000000)::bigint,
            EXISTS (
                SELECT
                FROM orchestrator.workers AS w
                WHERE w.state IN ('running', 'draining') AND w.idle_until > orchestrator.clock() AND q.name = ANY (w.queues)
            )
        INTO
            NEW.id, into_queue,
            -- generated: defaulted columns of NEW
            NEW.priority, NEW.max_attempts, NEW.timeout,
            -- end
            NEW.run_at, NEW.aging_us, awaited
        FROM orchestrator.types AS t
        JOIN orchestrator.queues AS q ON q.name = coalesce(NEW.queue, t.queue)
        WHERE t.name = NEW.type AND q.state <> 'draining' AND NEW.created_at IS NOT NULL;
        -- If the query finds no row, it sets all of these to NULL, as they were. So NEW.queue, which may be given, is
        -- not among them.
        IF FOUND THEN
            NEW.queue := into_queue;
            NEW.position := orchestrator.position_of(NEW.run_at, NEW.aging_us, NEW.priority);
            IF awaited THEN
                PERFORM orchestrator.ring(ARRAY[NEW.queue], NEW.run_at);
            END IF;
            RETURN NEW;
        END IF;
    END IF;
    -- A row that is complete but for its position: of a worker of the release before, or of a dump of its data.
    IF NEW.aging_us IS NOT NULL THEN
        IF NEW.priority NOT BETWEEN 0 AND 100 OR NEW.max_attempts < 1 THEN
            RAISE EXCEPTION USING
                ERRCODE = 'OR006',
                MESSAGE = format('the priority is %s, and max_attempts is %s', NEW.priority, NEW.max_attempts),
                HINT = 'The priority must lie between 0 and 100, and max_attempts between 1 and 32767.';
        END IF;
        NEW.position := orchestrator.position_of(NEW.run_at, NEW.aging_us, NEW.priority);
        RETURN NEW;
    END IF;
    -- An id ahead of the sequence would make a later, correct INSERT fail. The id of a finished task would make the end
    -- of this one fail, because one leaf cannot hold both.
    IF NEW.attempt = -1 THEN
        -- insert_task has drawn the id.
        NEW.attempt := 0;
    ELSIF NEW.id IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('id is %s; the database numbers the tasks itself', NEW.id),
            HINT = 'Leave id out and read it by RETURNING id. For a name of your own, use idempotency_key.';
    END IF;
    SELECT
        coalesce(NEW.id, nextval('orchestrator.tasks_id_seq')),
        n.queue,
        -- generated: values of NEW
        coalesce(NEW.priority, t.priority, q.priority, 50),
        coalesce(NEW.max_attempts, t.max_attempts, q.max_attempts, 4),
        coalesce(NEW.timeout, t.timeout, q.timeout, interval '300 seconds'),
        -- end
        n.run_at,
        coalesce(NEW.created_at, orchestrator.clock()),
        (date_part('epoch', coalesce(q.aging, interval '1000 years')) * 1000000)::bigint,
        t.name IS NOT NULL,
        q.state IS NOT DISTINCT FROM 'draining',
        EXISTS (
            SELECT
            FROM orchestrator.workers AS w
            WHERE w.state IN ('running', 'draining') AND w.idle_until > greatest(orchestrator.clock(), n.run_at)
                AND n.queue = ANY (w.queues)
        )
    INTO
        NEW.id, NEW.queue,
        -- generated: defaulted columns of NEW
        NEW.priority, NEW.max_attempts, NEW.timeout,
        -- end
        NEW.run_at, NEW.created_at, NEW.aging_us, declared, draining, awaited
    FROM (SELECT) AS one
    LEFT JOIN orchestrator.types AS t ON t.name = NEW.type
    CROSS JOIN LATERAL (
        SELECT coalesce(NEW.queue, t.queue, 'default') AS queue, coalesce(NEW.run_at, orchestrator.clock()) AS run_at
    ) AS n
    LEFT JOIN orchestrator.queues AS q ON q.name = n.queue;
    IF NOT declared AND NEW.type <> '' THEN
        PERFORM orchestrator.warn_undeclared(NEW.type);
    END IF;

    fault := CASE
        WHEN NEW.type IS NULL THEN 'the type is empty'
        -- generated: faults of NEW
        WHEN NEW.type = ''
            THEN 'the type is empty'
        WHEN char_length(NEW.type) > 200
            THEN format('the type has %s characters; at most 200 are allowed', char_length(NEW.type))
        WHEN NEW.type ~ '[[:cntrl:]]'
            THEN 'the type holds a control character'
        WHEN NEW.queue = ''
            THEN 'the queue is empty'
        WHEN char_length(NEW.queue) > 200
            THEN format('the queue has %s characters; at most 200 are allowed', char_length(NEW.queue))
        WHEN NEW.queue ~ '[[:cntrl:]]'
            THEN 'the queue holds a control character'
        WHEN NEW.priority NOT BETWEEN 0 AND 100
            THEN format('the priority is %s; it must lie between 0 and 100', NEW.priority)
        WHEN NOT isfinite(NEW.run_at) OR NEW.run_at NOT BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'
            THEN format('run_at is %s; it must lie between the years 1970 and 9000', NEW.run_at)
        WHEN NEW.idempotency_key = ''
            THEN 'the idempotency key is empty'
        WHEN char_length(NEW.idempotency_key) > 500
            THEN format('the idempotency key has %s characters; at most 500 are allowed', char_length(NEW.idempotency_key))
        WHEN NEW.max_attempts NOT BETWEEN 1 AND 32767
            THEN format('max_attempts is %s; it must lie between 1 and 32767', NEW.max_attempts)
        WHEN NEW.timeout NOT BETWEEN interval '0' AND interval '100 years'
            THEN format('the timeout is %s; it must lie between 0 (none) and 100 years', NEW.timeout)
        WHEN array_ndims(NEW.tags) > 1
            THEN 'a tag is a list; each tag must be a text'
        WHEN cardinality(NEW.tags) > 100
            THEN format('there are %s tags; at most 100 are allowed', cardinality(NEW.tags))
        WHEN EXISTS (SELECT FROM unnest(NEW.tags) AS t (tag) WHERE t.tag IS NULL OR char_length(t.tag) > 200)
            THEN 'a tag is NULL or has more than 200 characters'
        -- end
    END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'OR006', MESSAGE = fault, HINT = 'Nothing was enqueued.';
    END IF;
    -- IS DISTINCT FROM: a NULL would pass <> and meet a constraint, whose error prints the row.
    IF NEW.status NOT IN ('pending', 'scheduled')
        OR NEW.attempt IS DISTINCT FROM 0 OR NEW.losses IS DISTINCT FROM 0
        OR num_nonnulls(
            NEW.lease, NEW.worker_id, NEW.claimed_at, NEW.started_at, NEW.finished_at, NEW.result, NEW.error, NEW.progress
        ) <> 0
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR001',
            MESSAGE = CASE
                WHEN NEW.status IN ('pending', 'scheduled') THEN 'a new task cannot have the marks of an attempt'
                ELSE format('a new task cannot begin as %s', trim(orchestrator.quote_short(NEW.status), ''''))
            END,
            HINT = 'Leave status, lease, worker_id, attempt, losses, the attempt''s times, result, error and progress out of the INSERT.';
    END IF;
    IF draining THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR003',
            MESSAGE = format('queue %s is draining and takes no new tasks', orchestrator.quote_short(NEW.queue)),
            HINT = format('SELECT orchestrator.resume_queue(%L) opens it again.', NEW.queue);
    END IF;
    PERFORM orchestrator.check_payload(NEW.payload);
    -- They travel with each claim, too.
    -- generated: documents of NEW
    IF NEW.metadata IS NOT NULL THEN
        PERFORM orchestrator.check_payload(NEW.metadata, 'metadata');
    END IF;
    IF NEW.trace_context IS NOT NULL THEN
        PERFORM orchestrator.check_payload(NEW.trace_context, 'trace_context');
    END IF;
    -- end

    NEW.position := orchestrator.position_of(NEW.run_at, NEW.aging_us, NEW.priority);
    NEW.status := CASE WHEN NEW.run_at > orchestrator.clock() THEN 'scheduled' ELSE 'pending' END;
    -- enqueue and enqueue_each have taken the key already; a bare INSERT takes it here.
    IF NEW.idempotency_key IS NOT NULL
        AND NEW.id <> orchestrator.take_key(NEW.type, NEW.idempotency_key, NEW.id, interval '24 hours')
    THEN
        RAISE EXCEPTION USING
            ERRCODE = '23505',
            MESSAGE = 'a task of this type already has this idempotency key',
            HINT = 'SELECT orchestrator.enqueue(type, payload, key => …) returns the id of the task that has it.';
    END IF;
    IF awaited THEN
        PERFORM orchestrator.ring(ARRAY[NEW.queue], NEW.run_at);
    END IF;
    RETURN NEW;
END
$$;
