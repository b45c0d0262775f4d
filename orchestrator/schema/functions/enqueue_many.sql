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
