-- Enqueue a set item by item, each through the triggers of the root. enqueue_many calls it for a set with anything
-- unusual. The error names the first bad item, with the message of the check that refused it; items that are only
-- unusual are enqueued. It takes keys sorted by (type, key), so that two sets cannot deadlock.
CREATE OR REPLACE FUNCTION orchestrator.enqueue_each(tasks jsonb)
RETURNS TABLE (id bigint, created boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, orchestrator, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    known CONSTANT text[] := ARRAY[
        'type', 'payload',
        -- generated: members
        'queue', 'priority', 'run_at', 'delay', 'key', 'key_window', 'max_attempts', 'timeout', 'tags', 'metadata',
        'trace_context'
        -- end
    ];
    lists CONSTANT text[] := ARRAY[
        -- generated: list members
        'tags'
        -- end
    ];
    new_ids bigint[] := '{}';
    holders bigint[];
    item record;
    refused text;
    last_type text;
    last_key text;
    last_holder bigint;
    n integer := 0;
    message text;
    hint text;
BEGIN
    -- The ids are drawn in the order of the items, so that the tasks run in that order.
    FOR n IN 1 .. jsonb_array_length(enqueue_each.tasks) LOOP
        new_ids[n] := nextval('orchestrator.tasks_id_seq');
    END LOOP;
    holders := new_ids;
    BEGIN
        FOR item IN
            SELECT a.n, a.value ->> 'type' AS type, a.value ->> 'key' AS key, a.value ->> 'key_window' AS key_window
            FROM jsonb_array_elements(enqueue_each.tasks) WITH ORDINALITY AS a (value, n)
            WHERE a.value ->> 'key' <> '' AND a.value ->> 'type' <> ''
                AND char_length(a.value ->> 'key') <= 500 AND char_length(a.value ->> 'type') <= 200
            ORDER BY a.value ->> 'type' COLLATE "C", a.value ->> 'key' COLLATE "C", a.n
        LOOP
            n := item.n;
            IF (item.type, item.key) IS DISTINCT FROM (last_type, last_key) THEN
                last_holder := orchestrator.take_key(
                    item.type, item.key, new_ids[n], coalesce(item.key_window::interval, interval '24 hours')
                );
            END IF;
            holders[n] := last_holder;
            last_type := item.type;
            last_key := item.key;
        END LOOP;
        FOR item IN
            SELECT a.n, a.value FROM jsonb_array_elements(enqueue_each.tasks) WITH ORDINALITY AS a (value, n) ORDER BY a.n
        LOOP
            n := item.n;
            IF jsonb_typeof(item.value) <> 'object' THEN
                RAISE EXCEPTION USING ERRCODE = 'OR006', MESSAGE = 'it is not a JSON object';
            END IF;
            SELECT k INTO refused FROM jsonb_object_keys(item.value) AS k WHERE k <> ALL (known) LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION USING
                    ERRCODE = 'OR006',
                    MESSAGE = format('it has an unknown member %s', orchestrator.quote_short(refused)),
                    HINT = format('The members are %s.', array_to_string(known, ', '));
            END IF;
            CONTINUE WHEN holders[n] <> new_ids[n];
            IF item.value ->> 'run_at' IS NOT NULL AND item.value ->> 'delay' IS NOT NULL THEN
                RAISE EXCEPTION USING ERRCODE = 'OR006', MESSAGE = 'run_at and delay were both given', HINT = 'Give one of them.';
            END IF;
            -- PostgreSQL would read a string as the text form of an array.
            SELECT k INTO refused FROM unnest(lists) AS k WHERE jsonb_typeof(item.value -> k) NOT IN ('array', 'null') LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION USING
                    ERRCODE = 'OR006', MESSAGE = format('its %s are not an array', refused), HINT = 'For example ["urgent"].';
            END IF;
            PERFORM orchestrator.insert_task(
                new_ids[n],
                coalesce(item.value -> 'payload', '{}'),
                coalesce(
                    (item.value ->> 'run_at')::timestamptz,
                    orchestrator.clock() + orchestrator.checked_span('delay', (item.value ->> 'delay')::interval)
                ),
                item.value - ARRAY['payload', 'run_at', 'delay']
            );
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        -- One subtransaction for the whole set; the message gains the index of the bad item.
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
        RAISE EXCEPTION USING
            -- A value that is invalid for its type (class 22) is a wrong argument here. The server's message prints all
            -- of it.
            ERRCODE = CASE WHEN SQLSTATE LIKE '22%' THEN 'OR006' ELSE SQLSTATE END,
            MESSAGE = format('tasks[%s]: %s', n - 1, regexp_replace(left(message, 200), '[[:cntrl:]]', '?', 'g')),
            HINT = coalesce(nullif(hint, ''), 'Nothing of the set was enqueued.');
    END;
    RETURN QUERY
        SELECT h.holder, h.holder = new_ids[h.n] FROM unnest(holders) WITH ORDINALITY AS h (holder, n) ORDER BY h.n;
END
$$;
