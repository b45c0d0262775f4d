-- `make render` writes this file: the functions.

-- They call each other, so their bodies are checked when they are first run.
SET LOCAL check_function_bodies = off;

-- functions/enqueue.sql
-- Enqueue one task and return its id. If another task has the key, return that task's id.
-- Options that are not given come from the type, then the queue, then the built-in default.
-- One query finds the defaults and writes the complete row into its leaf, past the root's triggers. If anything is
-- unusual, the row goes through the triggers instead: fill_new_task names the fault, or accepts the row.
CREATE OR REPLACE FUNCTION orchestrator.enqueue(
    type text,
    payload jsonb DEFAULT '{}',
    -- generated: arguments
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    key text DEFAULT NULL,
    key_window interval DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL,
    tags text[] DEFAULT NULL,
    metadata jsonb DEFAULT NULL,
    trace_context jsonb DEFAULT NULL
    -- end
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    new_id bigint := nextval('orchestrator.tasks_id_seq');
    due timestamptz := coalesce(enqueue.run_at, orchestrator.clock());
    holder bigint;
    plain boolean := true;
    into_queue text;
    awaited boolean;
BEGIN
    IF enqueue.run_at IS NOT NULL AND enqueue.delay IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'OR006', MESSAGE = 'run_at and delay were both given', HINT = 'Give one of them.';
    END IF;
    IF enqueue.key IS NOT NULL AND char_length(enqueue.type) BETWEEN 1 AND 200 AND char_length(enqueue.key) BETWEEN 1 AND 500 THEN
        holder := orchestrator.take_key(
            enqueue.type, enqueue.key, new_id, coalesce(enqueue.key_window, interval '24 hours')
        );
        IF holder <> new_id THEN
            RETURN holder;
        END IF;
    END IF;
    -- Apart from the rest: each transaction pays for an expression anew, by its length, whether it is used or not.
    IF num_nonnulls(
        enqueue.run_at, enqueue.delay, enqueue.key,
        -- generated: simple options of enqueue
        enqueue.priority, enqueue.max_attempts, enqueue.timeout, enqueue.tags, enqueue.metadata, enqueue.trace_context
        -- end
    ) <> 0 THEN
        IF enqueue.delay IS NOT NULL THEN
            due := orchestrator.clock() + orchestrator.checked_span('delay', enqueue.delay);
        END IF;
        plain := (
            due BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'
            AND (enqueue.key IS NULL OR char_length(enqueue.key) BETWEEN 1 AND 500)
            -- generated: valid arguments of enqueue
            AND (enqueue.priority IS NULL OR enqueue.priority BETWEEN 0 AND 100)
            AND (enqueue.max_attempts IS NULL OR enqueue.max_attempts BETWEEN 1 AND 32767)
            AND (enqueue.timeout IS NULL OR enqueue.timeout BETWEEN interval '0' AND interval '100 years')
            -- end
            AND num_nonnulls(
                -- generated: careful options of enqueue
                enqueue.tags, enqueue.metadata, enqueue.trace_context
                -- end
            ) = 0
        );
    END IF;
    IF plain THEN
        INSERT INTO orchestrator.tasks_live AS n (
            id, type, payload, queue, status,
            -- generated: defaulted columns
            priority, max_attempts, timeout,
            -- end
            run_at, aging_us, position, idempotency_key
        )
        SELECT
            new_id, t.name, enqueue.payload, q.name,
            CASE WHEN due > orchestrator.clock() THEN 'scheduled' ELSE 'pending' END,
            -- generated: values of enqueue
            coalesce(enqueue.priority, t.priority, q.priority, 50),
            coalesce(enqueue.max_attempts, t.max_attempts, q.max_attempts, 4),
            coalesce(enqueue.timeout, t.timeout, q.timeout, interval '300 seconds'),
            -- end
            due,
            (date_part('epoch', q.aging) * 1000000)::bigint,
            orchestrator.position_of(
                due,
                (date_part('epoch', q.aging) * 1000000)::bigint,
                -- generated: priority of enqueue
                coalesce(enqueue.priority, t.priority, q.priority, 50)
                -- end
            ),
            enqueue.key
        FROM orchestrator.types AS t
        JOIN orchestrator.queues AS q ON q.name = coalesce(enqueue.queue, t.queue)
        WHERE t.name = enqueue.type AND q.state <> 'draining'
            AND jsonb_typeof(enqueue.payload) = 'object' AND octet_length(enqueue.payload::text) <= 128
        RETURNING n.queue, EXISTS (
            SELECT
            FROM orchestrator.workers AS w
            WHERE w.state IN ('running', 'draining') AND w.idle_until > greatest(orchestrator.clock(), due) AND n.queue = ANY (w.queues)
        )
        INTO into_queue, awaited;
        IF FOUND THEN
            IF awaited THEN
                PERFORM orchestrator.ring(ARRAY[into_queue], due);
            END IF;
            RETURN new_id;
        END IF;
    END IF;
    PERFORM orchestrator.insert_task(new_id, enqueue.payload, due, jsonb_build_object(
        'type', enqueue.type, 'queue', enqueue.queue, 'key', enqueue.key,
        -- generated: item of enqueue
        'priority', enqueue.priority, 'max_attempts', enqueue.max_attempts, 'timeout', enqueue.timeout,
        'tags', enqueue.tags, 'metadata', enqueue.metadata, 'trace_context', enqueue.trace_context
        -- end
    ));
    RETURN new_id;
END
$$;

-- functions/enqueue_alike.sql
-- Enqueue a set of tasks that differ only in their payloads, a JSON array of objects, and return their ids in order.
-- `alike` holds what they share: any other member of enqueue_many's items except key and key_window. It is sent, looked
-- up and checked once: 4 µs per item, against 6 µs with enqueue_many. A set with anything unusual goes to enqueue_many.
CREATE OR REPLACE FUNCTION orchestrator.enqueue_alike(payloads jsonb, alike jsonb)
RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    new_ids bigint[];
    task record;
    plain boolean;
BEGIN
    -- A subtransaction, to catch values that cannot be cast. It writes nothing, so it needs no transaction id of its
    -- own.
    BEGIN
        SELECT
            a.type, n.queue,
            coalesce(a.run_at, orchestrator.clock() + a.delay, orchestrator.clock()) AS due,
            -- generated: resolved options of a
            coalesce(a.priority, t.priority, q.priority, 50) AS priority,
            coalesce(a.max_attempts, t.max_attempts, q.max_attempts, 4) AS max_attempts,
            coalesce(a.timeout, t.timeout, q.timeout, interval '300 seconds') AS timeout,
            a.tags,
            a.metadata,
            a.trace_context,
            -- end
            (date_part('epoch', coalesce(q.aging, interval '1000 years')) * 1000000)::bigint AS aging_us,
            q.state IS NOT DISTINCT FROM 'draining' AS draining,
            a.run_at IS NOT NULL AND a.delay IS NOT NULL AS due_twice,
            a.delay IS NULL OR a.delay BETWEEN interval '0' AND interval '100 years' AS delay_fits
        INTO task
        FROM jsonb_to_record(enqueue_alike.alike) AS a (
            type text,
            -- generated: record
            queue text, priority integer, run_at timestamptz, delay interval, max_attempts integer, timeout interval,
            tags text[], metadata jsonb, trace_context jsonb
            -- end
        )
        LEFT JOIN orchestrator.types AS t ON t.name = a.type
        CROSS JOIN LATERAL (SELECT coalesce(a.queue, t.queue, 'default') AS queue) AS n
        LEFT JOIN orchestrator.queues AS q ON q.name = n.queue;
        plain := enqueue_alike.alike - ARRAY[
                'type',
                -- generated: shared members
                'queue', 'priority', 'run_at', 'delay', 'max_attempts', 'timeout', 'tags', 'metadata', 'trace_context'
                -- end
            ] = '{}'
            AND char_length(task.type) BETWEEN 1 AND 200 AND task.type !~ '[[:cntrl:]]'
            AND char_length(task.queue) BETWEEN 1 AND 200 AND task.queue !~ '[[:cntrl:]]'
            AND NOT task.draining
            AND NOT task.due_twice AND task.delay_fits
            AND task.due BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'
            -- generated: valid values of task
            AND task.priority BETWEEN 0 AND 100
            AND task.max_attempts BETWEEN 1 AND 32767
            AND task.timeout BETWEEN interval '0' AND interval '100 years'
            AND (task.tags IS NULL OR array_position(task.tags, NULL) IS NULL AND coalesce(array_ndims(task.tags), 1) = 1 AND cardinality(task.tags) <= 100 AND octet_length(array_to_string(task.tags, '')) <= 200)
            AND (task.metadata IS NULL OR orchestrator.check_payload(task.metadata, 'metadata'))
            AND (task.trace_context IS NULL OR orchestrator.check_payload(task.trace_context, 'trace_context'))
            -- end
            AND (
                SELECT bool_and(CASE
                    WHEN octet_length(p.value::text) <= 128 THEN jsonb_typeof(p.value) = 'object'
                    ELSE orchestrator.check_payload(p.value)
                END)
                FROM jsonb_array_elements(enqueue_alike.payloads) AS p (value)
            );
    EXCEPTION WHEN OTHERS THEN
        plain := false;
    END;
    IF plain IS NOT TRUE THEN
        IF jsonb_typeof(enqueue_alike.payloads) IS DISTINCT FROM 'array' OR jsonb_typeof(enqueue_alike.alike) IS DISTINCT FROM 'object' THEN
            RAISE EXCEPTION USING
                ERRCODE = 'OR006',
                MESSAGE = 'enqueue_alike takes a JSON array of payloads, and a JSON object of what they share',
                HINT = 'For example [{"user_id": 1}, {"user_id": 2}] and {"type": "mail.welcome"}.';
        END IF;
        RETURN ARRAY(
            SELECT e.id
            FROM orchestrator.enqueue_many((
                SELECT coalesce(jsonb_agg(enqueue_alike.alike || jsonb_build_object('payload', p.value) ORDER BY p.n), '[]')
                FROM jsonb_array_elements(enqueue_alike.payloads) WITH ORDINALITY AS p (value, n)
            )) WITH ORDINALITY AS e (id, created, n)
            ORDER BY e.n
        );
    END IF;

    PERFORM orchestrator.warn_undeclared(task.type);
    -- The ids are drawn in the order of the items, so that the tasks run in that order.
    new_ids := ARRAY(
        SELECT nextval('orchestrator.tasks_id_seq') FROM generate_series(1, jsonb_array_length(enqueue_alike.payloads))
    );
    INSERT INTO orchestrator.tasks_live (
        id, type, payload, queue, status, run_at, aging_us, position,
        -- generated: simple options
        priority, max_attempts, timeout, tags, metadata, trace_context
        -- end
    )
    SELECT
        p.id, task.type, p.value, task.queue,
        CASE WHEN task.due > orchestrator.clock() THEN 'scheduled' ELSE 'pending' END,
        task.due, task.aging_us, orchestrator.position_of(task.due, task.aging_us, task.priority),
        -- generated: simple options of task
        task.priority, task.max_attempts, task.timeout, task.tags, task.metadata, task.trace_context
        -- end
    FROM ROWS FROM (unnest(new_ids), jsonb_array_elements(enqueue_alike.payloads)) AS p (id, value);
    PERFORM orchestrator.ring(ARRAY[task.queue], task.due);
    RETURN new_ids;
END
$$;

-- functions/enqueue_many.sql
-- Enqueue a set: a JSON array of objects whose members are the arguments of enqueue(). All or nothing. Returns one row
-- for each item, in order; `created` is false if an older task or an earlier item has the key.
-- One query checks the whole set and another inserts it, as complete rows, past the root's triggers: 6 µs per item,
-- against 60 µs with one INSERT per item. A set with anything unusual goes to enqueue_each, which names the bad item.
-- It takes keys sorted by (type, key), so that two sets cannot deadlock.
CREATE OR REPLACE FUNCTION orchestrator.enqueue_many(tasks jsonb)
RETURNS TABLE (id bigint, created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    new_ids bigint[];
    holders bigint[];
    plain boolean := false;
    keyed boolean;
    undeclared boolean;
    item record;
    last_type text;
    last_key text;
    last_holder bigint;
BEGIN
    IF jsonb_typeof(enqueue_many.tasks) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = 'enqueue_many takes a JSON array of objects',
            HINT = 'For example [{"type": "mail.welcome", "payload": {"user_id": 1}}].';
    END IF;
    -- A subtransaction, to catch values that cannot be cast. It writes nothing, so it needs no transaction id of its
    -- own.
    BEGIN
        SELECT
            bool_and(coalesce(
                a.value - ARRAY[
                    'type', 'payload',
                    -- generated: fast members
                    'queue', 'priority', 'run_at', 'delay', 'key', 'key_window', 'max_attempts', 'timeout', 'tags',
                    'metadata', 'trace_context'
                    -- end
                ] = '{}'
                AND char_length(a.type) BETWEEN 1 AND 200 AND a.type !~ '[[:cntrl:]]'
                AND char_length(a.queue) BETWEEN 1 AND 200 AND a.queue !~ '[[:cntrl:]]'
                AND NOT a.draining
                AND (a.run_at IS NULL OR a.delay IS NULL)
                AND coalesce(a.run_at, orchestrator.clock() + a.delay, orchestrator.clock())
                    BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'
                AND (a.key IS NULL OR char_length(a.key) BETWEEN 1 AND 500)
                AND (a.delay IS NULL OR a.delay BETWEEN interval '0' AND interval '100 years')
                AND (a.key_window IS NULL OR a.key_window > interval '0' AND a.key_window <= interval '100 years')
                -- generated: valid members of a
                AND a.priority BETWEEN 0 AND 100
                AND a.max_attempts BETWEEN 1 AND 32767
                AND a.timeout BETWEEN interval '0' AND interval '100 years'
                AND (a.tags IS NULL OR jsonb_typeof(a.tags) = 'array' AND octet_length(a.tags::text) <= 200
                    AND NOT jsonb_path_exists(a.tags, '$[*] ? (@.type() != "string")'))
                AND (a.metadata IS NULL OR orchestrator.check_payload(a.metadata, 'metadata'))
                AND (a.trace_context IS NULL OR orchestrator.check_payload(a.trace_context, 'trace_context'))
                -- end
                AND CASE
                    WHEN octet_length(a.payload::text) <= 128 THEN jsonb_typeof(a.payload) = 'object'
                    ELSE orchestrator.check_payload(a.payload)
                END,
                false
            )),
            bool_or(a.key IS NOT NULL),
            bool_or(a.undeclared)
        INTO plain, keyed, undeclared
        FROM (
            SELECT
                v.value,
                v.value ->> 'type' AS type,
                coalesce(v.value ->> 'queue', t.queue, 'default') AS queue,
                coalesce(v.value -> 'payload', '{}') AS payload,
                -- generated: members read of v.value
                coalesce((v.value ->> 'priority')::integer, t.priority, q.priority, 50) AS priority,
                coalesce((v.value ->> 'max_attempts')::integer, t.max_attempts, q.max_attempts, 4) AS max_attempts,
                coalesce((v.value ->> 'timeout')::interval, t.timeout, q.timeout, interval '300 seconds') AS timeout,
                nullif(v.value -> 'tags', 'null') AS tags,
                nullif(v.value -> 'metadata', 'null') AS metadata,
                nullif(v.value -> 'trace_context', 'null') AS trace_context,
                -- end
                (v.value ->> 'run_at')::timestamptz AS run_at,
                (v.value ->> 'delay')::interval AS delay,
                v.value ->> 'key' AS key,
                (v.value ->> 'key_window')::interval AS key_window,
                t.name IS NULL AS undeclared,
                q.state IS NOT DISTINCT FROM 'draining' AS draining
            FROM jsonb_array_elements(enqueue_many.tasks) AS v (value)
            LEFT JOIN orchestrator.types AS t ON t.name = v.value ->> 'type'
            LEFT JOIN orchestrator.queues AS q ON q.name = coalesce(v.value ->> 'queue', t.queue, 'default')
            OFFSET 0  -- without it, each expression is computed again wherever its name is used
        ) AS a;
    EXCEPTION WHEN OTHERS THEN
        plain := false;
    END;
    IF plain IS NOT TRUE THEN
        RETURN QUERY SELECT e.id, e.created FROM orchestrator.enqueue_each(enqueue_many.tasks) AS e;
        RETURN;
    END IF;

    -- The ids are drawn in the order of the items, so that the tasks run in that order.
    new_ids := ARRAY(
        SELECT nextval('orchestrator.tasks_id_seq') FROM generate_series(1, jsonb_array_length(enqueue_many.tasks))
    );
    holders := new_ids;
    IF keyed THEN
        FOR item IN
            SELECT a.n, a.value ->> 'type' AS type, a.value ->> 'key' AS key, a.value ->> 'key_window' AS key_window
            FROM jsonb_array_elements(enqueue_many.tasks) WITH ORDINALITY AS a (value, n)
            WHERE a.value ->> 'key' IS NOT NULL
            ORDER BY a.value ->> 'type' COLLATE "C", a.value ->> 'key' COLLATE "C", a.n
        LOOP
            IF (item.type, item.key) IS DISTINCT FROM (last_type, last_key) THEN
                last_holder := orchestrator.take_key(
                    item.type, item.key, new_ids[item.n], coalesce(item.key_window::interval, interval '24 hours')
                );
            END IF;
            holders[item.n] := last_holder;
            last_type := item.type;
            last_key := item.key;
        END LOOP;
    END IF;
    IF undeclared THEN
        PERFORM orchestrator.warn_undeclared(t.name)
        FROM (SELECT DISTINCT v.value ->> 'type' AS name FROM jsonb_array_elements(enqueue_many.tasks) AS v (value)) AS t;
    END IF;
    WITH born AS (
        INSERT INTO orchestrator.tasks_live (
            id, type, payload, queue, status, run_at, aging_us, position, idempotency_key,
            -- generated: fast columns
            priority, max_attempts, timeout, tags, metadata, trace_context
            -- end
        )
        SELECT
            v.id, v.value ->> 'type', coalesce(v.value -> 'payload', '{}'),
            coalesce(v.value ->> 'queue', t.queue, 'default'),
            CASE
                WHEN coalesce((v.value ->> 'run_at')::timestamptz, orchestrator.clock() + (v.value ->> 'delay')::interval)
                    > orchestrator.clock()
                THEN 'scheduled'
                ELSE 'pending'
            END,
            coalesce(
                (v.value ->> 'run_at')::timestamptz, orchestrator.clock() + (v.value ->> 'delay')::interval,
                orchestrator.clock()
            ),
            (date_part('epoch', coalesce(q.aging, interval '1000 years')) * 1000000)::bigint,
            orchestrator.position_of(
                coalesce(
                    (v.value ->> 'run_at')::timestamptz, orchestrator.clock() + (v.value ->> 'delay')::interval,
                    orchestrator.clock()
                ),
                (date_part('epoch', coalesce(q.aging, interval '1000 years')) * 1000000)::bigint,
                -- generated: priority read of v.value
                coalesce((v.value ->> 'priority')::integer, t.priority, q.priority, 50)
                -- end
            ),
            v.value ->> 'key',
            -- generated: members written of v.value
            coalesce((v.value ->> 'priority')::integer, t.priority, q.priority, 50),
            coalesce((v.value ->> 'max_attempts')::integer, t.max_attempts, q.max_attempts, 4),
            coalesce((v.value ->> 'timeout')::interval, t.timeout, q.timeout, interval '300 seconds'),
            CASE WHEN jsonb_typeof(v.value -> 'tags') = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(v.value -> 'tags')) END,
            nullif(v.value -> 'metadata', 'null'),
            nullif(v.value -> 'trace_context', 'null')
            -- end
        FROM ROWS FROM (jsonb_array_elements(enqueue_many.tasks), unnest(new_ids), unnest(holders)) AS v (value, id, holder)
        LEFT JOIN orchestrator.types AS t ON t.name = v.value ->> 'type'
        LEFT JOIN orchestrator.queues AS q ON q.name = coalesce(v.value ->> 'queue', t.queue, 'default')
        WHERE v.holder = v.id
        RETURNING queue, run_at
    )
    -- The earliest task of a queue decides: a worker that sleeps past any of the tasks sleeps past the earliest.
    SELECT count(orchestrator.ring(ARRAY[n.queue], n.due)) AS rung
    INTO item
    FROM (SELECT b.queue, min(b.run_at) AS due FROM born AS b GROUP BY b.queue) AS n;
    RETURN QUERY
        SELECT h.holder, h.holder = h.id
        FROM ROWS FROM (unnest(holders), unnest(new_ids)) AS h (holder, id);
END
$$;

-- functions/fill_new_task.sql
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

-- functions/guard_manual_update.sql
-- Row trigger on an UPDATE that leaves the lease alone, as manual ones do: refuse a change that makes no sense, and
-- complete one that does, so that `SET status = 'pending'` is a whole requeue.
-- Three of a worker's writes leave the lease alone, too. The start of an attempt sets started_at, which an operator may
-- not set. The sweep changes only the status, and only of due tasks. An unblocked task keeps its place in the order,
-- because it has waited; an operator's statement that unblocks a task does the same.
-- SECURITY DEFINER, because only our own functions may call position_of.
CREATE OR REPLACE FUNCTION orchestrator.guard_manual_update()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
DECLARE
    waits CONSTANT boolean := OLD.status IN ('scheduled', 'blocked', 'pending');
    now CONSTANT timestamptz := orchestrator.clock();
    advice text;
BEGIN
    IF NEW.priority IS NOT DISTINCT FROM OLD.priority AND NEW.run_at IS NOT DISTINCT FROM OLD.run_at THEN
        IF NEW.status IS NOT DISTINCT FROM OLD.status
            OR OLD.status = 'claimed' AND NEW.status = 'running' AND OLD.started_at IS DISTINCT FROM NEW.started_at
            OR OLD.status = 'scheduled' AND NEW.status = 'pending' AND OLD.run_at <= now
            OR OLD.status = 'blocked' AND NEW.status IN ('pending', 'scheduled')
        THEN
            RETURN NEW;
        END IF;
    END IF;
    IF NEW.priority IS NULL OR NEW.priority NOT BETWEEN 0 AND 100 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('task %s: the priority is %s; it must lie between 0 and 100', OLD.id, coalesce(NEW.priority::text, 'NULL')),
            HINT = '25 is low, 50 normal, 75 high, 100 critical.';
    END IF;
    IF NEW.run_at IS DISTINCT FROM OLD.run_at THEN
        IF NEW.run_at IS NULL OR NOT isfinite(NEW.run_at) OR NEW.run_at NOT BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC' THEN
            RAISE EXCEPTION USING
                ERRCODE = 'OR006',
                MESSAGE = format(
                    'task %s: run_at is %s; it must lie between the years 1970 and 9000',
                    OLD.id, coalesce(NEW.run_at::text, 'NULL')
                ),
                HINT = 'To run it now, set run_at = now().';
        END IF;
        -- tasks_refuse_done_update and tasks_refuse_dead_update refuse the change for a finished task.
        IF OLD.status IN ('claimed', 'running') AND NEW.status NOT IN ('pending', 'scheduled') THEN
            RAISE EXCEPTION USING
                ERRCODE = 'OR001',
                MESSAGE = format('task %s is %s; run_at can be changed only while it waits', OLD.id, OLD.status),
                HINT = format('To run it again then: UPDATE orchestrator.tasks SET status = ''pending'', run_at = … WHERE id = %s', OLD.id);
        END IF;
        -- A new time for a waiting task decides between scheduled and pending, whatever status the statement sets.
        IF NEW.status IN ('pending', 'scheduled') THEN
            NEW.status := CASE WHEN NEW.run_at > now THEN 'scheduled' ELSE 'pending' END;
        END IF;
    END IF;

    IF NEW.status = OLD.status THEN
        RETURN NEW;
    ELSIF NEW.status = 'scheduled' AND NEW.run_at > now AND NEW.run_at <> OLD.run_at THEN
        NULL;
    ELSIF NEW.status = 'pending' THEN
        IF NEW.run_at = OLD.run_at OR NEW.run_at > now THEN
            NEW.run_at := now;
        END IF;
    ELSIF NEW.status = 'cancelled' AND OLD.finished_at IS NULL THEN
        IF to_regclass('orchestrator.tasks_done_' || to_char(now AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NULL THEN
            RAISE EXCEPTION USING
                ERRCODE = '23514',
                MESSAGE = format('task %s cannot be moved: tasks_done has no leaf for today', OLD.id),
                HINT = 'SELECT orchestrator.ensure_partition(); makes it. Then try again.';
        END IF;
        NEW.finished_at := now;
        -- Its worker is fenced off; worker_id stays, to name that worker.
        NEW.lease := NULL;
        RETURN NEW;
    ELSE
        advice := CASE
            WHEN NEW.status = 'cancelled' AND OLD.status = 'dead_letter' THEN 'It will not run again by itself. DELETE it if it is not wanted.'
            WHEN NEW.status = 'cancelled' THEN 'It has already finished. To run it again, set status = ''pending''.'
            WHEN NEW.status = 'scheduled' THEN 'Set run_at to a time in the future; the status follows.'
            WHEN NEW.status = 'dead_letter' THEN 'Only a worker gives a task up. To stop it, set status = ''cancelled''.'
            WHEN NEW.status = 'blocked' THEN 'Only a dependency blocks a task. To stop a queue: SELECT orchestrator.pause_queue(…).'
            WHEN NEW.status IN ('claimed', 'running', 'completed') THEN 'Only a worker does that. To run it now, set status = ''pending''.'
            ELSE 'The statuses are scheduled, blocked, pending, claimed, running, completed, cancelled and dead_letter.'
        END;
        RAISE EXCEPTION USING
            ERRCODE = 'OR001',
            MESSAGE = format('task %s is %s, and a manual change cannot make it %s', OLD.id, OLD.status, trim(orchestrator.quote_short(NEW.status), '''')),
            HINT = advice;
    END IF;

    -- The task waits again. One that had begun or ended gets fresh attempts. Clearing the lease fences off a worker
    -- that may still run it.
    IF NOT waits THEN
        NEW.attempt := 0;
        NEW.losses := 0;
        NEW.error := NULL;
        NEW.result := NULL;
        NEW.progress := NULL;
    END IF;
    -- The finish takes a task for plain if `holds` is NULL, as it is on every ended row, and does not tell its gates. An
    -- empty array: a waiting task holds no permit.
    IF num_nonnulls(
        NEW.holds,
        -- generated: only of features of NEW
        NEW.workflow_id, NEW.tenant, NEW.limits, NEW.requires, NEW.gates
        -- end
    ) > 0 THEN
        NEW.holds := '{}';
    END IF;
    NEW.lease := NULL;
    NEW.worker_id := NULL;
    NEW.claimed_at := NULL;
    NEW.started_at := NULL;
    NEW.finished_at := NULL;
    -- run_at may be changed above, in a statement that does not name it: tasks_place does not fire then.
    NEW.position := orchestrator.position_of(NEW.run_at, NEW.aging_us, NEW.priority);
    RETURN NEW;
END
$$;

-- functions/place_task.sql
-- Row trigger: keep the position right when something changes that it is made of, and the number of attempts sensible.
-- SECURITY DEFINER, because only our own functions may call position_of.
CREATE OR REPLACE FUNCTION orchestrator.place_task()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
BEGIN
    IF NEW.max_attempts < 1 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'OR006',
            MESSAGE = format('task %s: max_attempts is %s; it must lie between 1 and 32767', OLD.id, NEW.max_attempts),
            HINT = 'To stop the task, set status = ''cancelled''.';
    END IF;
    NEW.position := orchestrator.position_of(NEW.run_at, NEW.aging_us, NEW.priority);
    RETURN NEW;
END
$$;

-- functions/position_of.sql
-- The place of a task in the order of execution: its time, in microseconds, later by `aging_us` for each point of
-- priority that it has less than the most. Not a timestamptz: Python cannot load the year 52026. date_part and not
-- extract: extract computes in numeric. PostgreSQL inlines this function, because it sets no search_path.
CREATE OR REPLACE FUNCTION orchestrator.position_of(run_at timestamptz, aging_us bigint, priority integer)
RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT (100 OPERATOR(pg_catalog.-) priority) OPERATOR(pg_catalog.*) aging_us
        OPERATOR(pg_catalog.+) CAST(pg_catalog.date_part('epoch', run_at) OPERATOR(pg_catalog.*) 1000000 AS bigint)
$$;
