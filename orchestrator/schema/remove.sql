-- Remove everything that migrating made, the tasks with it: views, tables, functions, the version table, the schema, and
-- the roles. A NOTICE names what is kept and why: a schema that another role made or that holds other objects, and a role
-- used elsewhere. Runs at the end of a downgrade to `base`, in its transaction.

-- name: objects
-- The views, tables, sequences and functions of every revision. The migrating role may be at an older one.
-- All later statements of other sessions would wait behind a long wait for a lock.
SET LOCAL lock_timeout = '5s';
DROP VIEW IF EXISTS
    -- generated: our views
    orchestrator.day_leaves, orchestrator.dead_letters, orchestrator.failures, orchestrator.installation,
    orchestrator.leader, orchestrator.live_workers, orchestrator.queue_summary, orchestrator.running_tasks,
    orchestrator.task_history
    -- end
;
DROP TABLE IF EXISTS
    -- generated: our tables
    orchestrator.attempts, orchestrator.audit, orchestrator.gate_changes, orchestrator.home,
    orchestrator.idempotency_keys, orchestrator.permits_returned, orchestrator.queues, orchestrator.samples,
    orchestrator.settings, orchestrator.statistics, orchestrator.statistics_by_hour, orchestrator.tasks,
    orchestrator.types, orchestrator.workers
    -- end
;
DROP SEQUENCE IF EXISTS orchestrator.tasks_id_seq, orchestrator.term_seq;
DROP FUNCTION IF EXISTS
    -- generated: our functions
    orchestrator.add_histograms, orchestrator.at_home, orchestrator.beacon_is_lost, orchestrator.bucket_begins,
    orchestrator.cancel, orchestrator.check_payload, orchestrator.checked_span, orchestrator.clock,
    orchestrator.drain_queue, orchestrator.drain_worker, orchestrator.drop_old_partition, orchestrator.enqueue,
    orchestrator.enqueue_alike, orchestrator.enqueue_each, orchestrator.enqueue_many, orchestrator.ensure_partition,
    orchestrator.ensure_queue, orchestrator.explain, orchestrator.explain_absent, orchestrator.explain_ended,
    orchestrator.explain_held, orchestrator.explain_ready, orchestrator.explain_scheduled, orchestrator.explanation,
    orchestrator.failure_groups, orchestrator.fill_new_task, orchestrator.format_interval,
    orchestrator.guard_manual_update, orchestrator.guard_queue, orchestrator.guard_type,
    orchestrator.hold_after_restore, orchestrator.insert_task, orchestrator.is_alive, orchestrator.kept_since,
    orchestrator.key_has_passed, orchestrator.name_fault, orchestrator.normalised, orchestrator.notify_workers,
    orchestrator.pause_queue, orchestrator.place_task, orchestrator.position_of, orchestrator.purge_attempts,
    orchestrator.purge_audit, orchestrator.purge_dead_letters, orchestrator.purge_finished, orchestrator.purge_keys,
    orchestrator.purge_statistics, orchestrator.purge_workers, orchestrator.queue_counts, orchestrator.queue_metrics,
    orchestrator.quote_short, orchestrator.record_manual_delete, orchestrator.record_manual_update,
    orchestrator.record_statistics, orchestrator.refuse_finished_update, orchestrator.refuse_new_id,
    orchestrator.requeue, orchestrator.requeue_where, orchestrator.resume_after_restore, orchestrator.resume_queue,
    orchestrator.return_key, orchestrator.ring, orchestrator.row_limit, orchestrator.set_defaults,
    orchestrator.set_home, orchestrator.set_queue_state, orchestrator.set_retention, orchestrator.set_workplace,
    orchestrator.stop_worker, orchestrator.take_key, orchestrator.up_since, orchestrator.warn_undeclared,
    orchestrator.worker_command
    -- end
;

-- name: schema
-- The version table, the schema and the roles.
DROP TABLE orchestrator.alembic_version;

DO $$
DECLARE
    role_name text;
    members text;
BEGIN
    IF has_database_privilege(current_database(), 'CREATE') THEN
        BEGIN
            DROP SCHEMA orchestrator;
        EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
            RAISE NOTICE 'the schema orchestrator is kept: %', SQLERRM;
        END;
    ELSE
        RAISE NOTICE 'the schema orchestrator is kept: % could not make it again', current_user;
    END IF;

    FOREACH role_name IN ARRAY ARRAY[
        'orchestrator_producer', 'orchestrator_worker', 'orchestrator_operator', 'orchestrator_reader'
    ] LOOP
        CONTINUE WHEN to_regrole(role_name) IS NULL;
        -- From PostgreSQL 16 on, a role that is not a superuser becomes a member of each role that it creates.
        SELECT string_agg(m.member::regrole::text, ', ' ORDER BY m.member::regrole::text) INTO members
        FROM pg_auth_members AS m
        WHERE m.roleid = to_regrole(role_name) AND m.member <> current_user::regrole;
        IF members IS NOT NULL THEN
            RAISE NOTICE 'the role % is kept: % may act as it', role_name, members;
            CONTINUE;
        END IF;
        BEGIN
            EXECUTE format('DROP ROLE %I', role_name);
        EXCEPTION WHEN dependent_objects_still_exist OR object_in_use OR insufficient_privilege THEN
            RAISE NOTICE 'the role % is kept: %', role_name, SQLERRM;
        END;
    END LOOP;
END
$$;
