-- The grants of the roles. Run after everything else exists. A missing role is created if the migrating role may do
-- that, and skipped with a notice if not; then create it and run `orchestrator migrate` again.
-- The migrating role is mostly a superuser, so this calls nothing that other roles may have put into a schema of its
-- path. PUBLIC has no rights. The day leaves get no grants: operators name the root, workers tasks_live, tasks_done,
-- tasks_dead.
SET LOCAL search_path = pg_catalog, pg_temp;

REVOKE ALL ON ALL TABLES IN SCHEMA orchestrator FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA orchestrator FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA orchestrator FROM PUBLIC;
REVOKE ALL ON SCHEMA orchestrator FROM PUBLIC;

DO $$
DECLARE
    role_name text;
    readable text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY[
        'orchestrator_producer', 'orchestrator_worker', 'orchestrator_operator', 'orchestrator_reader'
    ] LOOP
        IF to_regrole(role_name) IS NULL THEN
            IF (SELECT r.rolsuper OR r.rolcreaterole FROM pg_roles AS r WHERE r.rolname = current_user) THEN
                BEGIN
                    EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
                EXCEPTION WHEN duplicate_object OR unique_violation THEN
                    NULL;  -- another database of this cluster is being migrated at the same time
                END;
            ELSE
                RAISE NOTICE 'role % is missing and % may not create it: its grants are skipped', role_name, current_user;
                CONTINUE;
            END IF;
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA orchestrator TO %I', role_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION orchestrator.clock() TO %I', role_name);
    END LOOP;

    SELECT string_agg(c.oid::regclass::text, ', ') INTO readable
    FROM pg_class AS c
    WHERE c.relnamespace = 'orchestrator'::regnamespace AND c.relkind IN ('r', 'p', 'v')
        AND c.relname !~ '^tasks_done_[0-9]';

    -- A producer may only enqueue: it cannot read a payload or set a status.
    IF to_regrole('orchestrator_producer') IS NOT NULL THEN
        GRANT INSERT (
            type, payload,
            -- generated: columns
            queue, priority, run_at, idempotency_key, max_attempts, timeout, tags, metadata, trace_context
            -- end
        ) ON orchestrator.tasks TO orchestrator_producer;
        GRANT SELECT (id) ON orchestrator.tasks TO orchestrator_producer;
        GRANT EXECUTE ON FUNCTION
            orchestrator.enqueue(
                text, jsonb,
                -- generated: signature
                text, integer, timestamptz, interval, text, interval, integer, interval, text[], jsonb, jsonb
                -- end
            ),
            orchestrator.enqueue_many(jsonb),
            orchestrator.enqueue_alike(jsonb, jsonb)
            TO orchestrator_producer;
    END IF;

    -- The lifecycle columns of the leaf, never a payload. Handlers enqueue too.
    IF to_regrole('orchestrator_worker') IS NOT NULL THEN
        EXECUTE format('GRANT SELECT ON %s TO orchestrator_worker', readable);
        GRANT UPDATE (status, lease, worker_id, attempt, losses, run_at, claimed_at, started_at, error, progress)
            ON orchestrator.tasks_live TO orchestrator_worker;
        GRANT DELETE ON orchestrator.tasks_live TO orchestrator_worker;
        GRANT INSERT ON
            orchestrator.tasks_done, orchestrator.tasks_dead, orchestrator.attempts,
            orchestrator.permits_returned, orchestrator.gate_changes
            TO orchestrator_worker;
        GRANT INSERT, UPDATE, DELETE ON orchestrator.workers TO orchestrator_worker;
        GRANT INSERT, UPDATE ON orchestrator.types TO orchestrator_worker;
        GRANT INSERT, UPDATE, DELETE ON orchestrator.samples TO orchestrator_worker;
        -- Not the retention columns: with them a worker could delete rows that are not due.
        GRANT INSERT (name) ON orchestrator.queues TO orchestrator_worker;
        GRANT INSERT (
            type, payload,
            -- generated: columns
            queue, priority, run_at, idempotency_key, max_attempts, timeout, tags, metadata, trace_context
            -- end
        ) ON orchestrator.tasks TO orchestrator_worker;
        GRANT USAGE ON SEQUENCE orchestrator.term_seq TO orchestrator_worker;
        GRANT EXECUTE ON FUNCTION
            orchestrator.enqueue(
                text, jsonb,
                -- generated: signature
                text, integer, timestamptz, interval, text, interval, integer, interval, text[], jsonb, jsonb
                -- end
            ),
            orchestrator.enqueue_many(jsonb),
            orchestrator.enqueue_alike(jsonb, jsonb),
            orchestrator.ensure_partition(date),
            orchestrator.ring(text[], timestamptz),
            orchestrator.drop_old_partition(),
            orchestrator.purge_finished(text, bigint, integer, integer),
            orchestrator.purge_dead_letters(integer),
            orchestrator.purge_attempts(integer),
            orchestrator.purge_audit(integer),
            orchestrator.purge_keys(integer),
            orchestrator.purge_workers(integer),
            orchestrator.purge_statistics(integer),
            orchestrator.kept_since(interval),
            orchestrator.name_fault(text, text),
            orchestrator.quote_short(text),
            orchestrator.at_home(),
            orchestrator.up_since(),
            orchestrator.record_statistics(jsonb),
            orchestrator.bucket_begins(integer),
            orchestrator.queue_metrics(text, interval), orchestrator.checked_span(text, interval),
            orchestrator.queue_counts(boolean),
            orchestrator.normalised(text),
            orchestrator.failure_groups(integer)
            TO orchestrator_worker;
    END IF;

    -- An operator may read everything, and update only the task columns that a manual statement may change.
    IF to_regrole('orchestrator_operator') IS NOT NULL THEN
        EXECUTE format('GRANT SELECT ON %s TO orchestrator_operator', readable);
        GRANT UPDATE (status, priority, run_at), DELETE ON orchestrator.tasks TO orchestrator_operator;
        GRANT EXECUTE ON FUNCTION
            orchestrator.requeue(bigint, text),
            orchestrator.key_has_passed(text, text, bigint),
            orchestrator.quote_short(text),
            orchestrator.requeue_where(text, text, text, text, timestamptz, timestamptz, bigint, boolean, text),
            orchestrator.cancel(bigint, text),
            orchestrator.pause_queue(text, text),
            orchestrator.resume_queue(text, text),
            orchestrator.drain_queue(text, text),
            orchestrator.set_queue_state(text, text, text),
            orchestrator.drain_worker(uuid, text),
            orchestrator.stop_worker(uuid, text),
            orchestrator.set_retention(text, interval, interval, text),
            orchestrator.set_defaults(text, integer, integer, interval, interval, text[], text),
            orchestrator.queue_counts(boolean),
            orchestrator.ensure_partition(date),
            orchestrator.drop_old_partition(),
            orchestrator.purge_finished(text, bigint, integer, integer),
            orchestrator.purge_dead_letters(integer),
            orchestrator.purge_attempts(integer),
            orchestrator.purge_audit(integer),
            orchestrator.purge_keys(integer),
            orchestrator.purge_workers(integer),
            orchestrator.purge_statistics(integer),
            orchestrator.at_home(),
            orchestrator.up_since(),
            orchestrator.hold_after_restore(text),
            orchestrator.resume_after_restore(text),
            orchestrator.bucket_begins(integer),
            orchestrator.queue_metrics(text, interval), orchestrator.checked_span(text, interval),
            orchestrator.normalised(text),
            orchestrator.failure_groups(integer)
            TO orchestrator_operator;
    END IF;

    IF to_regrole('orchestrator_reader') IS NOT NULL THEN
        EXECUTE format('GRANT SELECT ON %s TO orchestrator_reader', readable);
        -- A role that can read a beacon can also take its lock, so that a dead worker seems alive until its beat is
        -- missed.
        REVOKE SELECT ON orchestrator.workers FROM orchestrator_reader;
        EXECUTE format(
            'GRANT SELECT (%s) ON orchestrator.workers TO orchestrator_reader',
            (
                SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
                FROM pg_attribute AS a
                WHERE a.attrelid = 'orchestrator.workers'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'beacon'
            )
        );
        GRANT EXECUTE ON FUNCTION
            orchestrator.at_home(), orchestrator.bucket_begins(integer), orchestrator.queue_metrics(text, interval), orchestrator.checked_span(text, interval),
            orchestrator.queue_counts(boolean), orchestrator.normalised(text), orchestrator.failure_groups(integer)
            TO orchestrator_reader;
    END IF;

    IF to_regrole('orchestrator_worker') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION orchestrator.beacon_is_lost(uuid), orchestrator.is_alive(uuid) TO orchestrator_worker;
    END IF;

    -- A role that may read a task may call explain() for it.
    FOREACH role_name IN ARRAY ARRAY['orchestrator_operator', 'orchestrator_reader'] LOOP
        CONTINUE WHEN to_regrole(role_name) IS NULL;
        -- SELECT shows the last id, and cannot draw one.
        EXECUTE format('GRANT SELECT ON SEQUENCE orchestrator.tasks_id_seq TO %I', role_name);
        EXECUTE format(
            'GRANT EXECUTE ON FUNCTION orchestrator.explain(bigint), orchestrator.explanation(bigint),'
            ' orchestrator.explain_absent(bigint), orchestrator.explain_ended(bigint), orchestrator.explain_held(bigint),'
            ' orchestrator.explain_scheduled(bigint), orchestrator.explain_ready(bigint), orchestrator.format_interval(interval),'
            ' orchestrator.beacon_is_lost(uuid), orchestrator.is_alive(uuid), orchestrator.worker_command(text) TO %I',
            role_name
        );
    END LOOP;
END
$$;
