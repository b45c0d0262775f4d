-- Take away everything 1_tables to 5_leaves made, the tasks with it.
DROP VIEW orchestrator.day_leaves, orchestrator.dead_letters, orchestrator.failures, orchestrator.installation, orchestrator.leader,
    orchestrator.live_workers,
    orchestrator.queue_summary, orchestrator.running_tasks, orchestrator.task_history;
DROP TABLE orchestrator.tasks, orchestrator.audit, orchestrator.idempotency_keys, orchestrator.attempts,
    orchestrator.workers, orchestrator.types, orchestrator.queues, orchestrator.home, orchestrator.settings,
    orchestrator.statistics, orchestrator.statistics_by_hour,
    orchestrator.samples, orchestrator.permits_returned, orchestrator.gate_changes;
DROP SEQUENCE orchestrator.tasks_id_seq, orchestrator.term_seq;
DO $$
DECLARE
    routine regprocedure;
BEGIN
    FOR routine IN SELECT p.oid::regprocedure FROM pg_proc AS p WHERE p.pronamespace = 'orchestrator'::regnamespace LOOP
        EXECUTE format('DROP FUNCTION %s', routine);
    END LOOP;
END
$$;
