-- The triggers, frozen.

-- Few write here: workers at their start, and people.
CREATE OR REPLACE TRIGGER queues_guard
BEFORE INSERT OR UPDATE ON orchestrator.queues
FOR EACH ROW
EXECUTE FUNCTION orchestrator.guard_queue();

-- WHEN is false for rows that come complete (our own bulk path): a row trigger that fires costs COPY more than
-- half its speed. It is false for rows that move here from another leaf, too.
CREATE OR REPLACE TRIGGER tasks_fill
BEFORE INSERT ON orchestrator.tasks
FOR EACH ROW
WHEN (NEW.aging_us IS NULL)
EXECUTE FUNCTION orchestrator.fill_new_task();

-- A write that sets or clears the lease is a worker's. Three of its writes leave the lease alone. The start of an attempt
-- sets started_at, which a hand cannot. The sweep frees only what is due and changes nothing else. What was blocked and may
-- run keeps its place in the order: it has waited all along. A hand that unblocks a task gets the same.
CREATE OR REPLACE TRIGGER tasks_guard
BEFORE UPDATE ON orchestrator.tasks
FOR EACH ROW
WHEN (
    OLD.lease IS NOT DISTINCT FROM NEW.lease
    AND (
        OLD.status IS DISTINCT FROM NEW.status
        OR OLD.priority IS DISTINCT FROM NEW.priority
        OR OLD.run_at IS DISTINCT FROM NEW.run_at
    )
    AND NOT (
        OLD.priority IS NOT DISTINCT FROM NEW.priority
        AND OLD.run_at IS NOT DISTINCT FROM NEW.run_at
        AND (
            OLD.status = 'claimed' AND NEW.status = 'running' AND OLD.started_at IS DISTINCT FROM NEW.started_at
            OR OLD.status = 'scheduled' AND NEW.status = 'pending' AND OLD.run_at <= orchestrator.clock()
            OR OLD.status = 'blocked' AND NEW.status IN ('pending', 'scheduled')
        )
    )
)
EXECUTE FUNCTION orchestrator.guard_manual_update();

-- On this leaf alone: a longer condition on the root would cost each claim. By its name it comes after tasks_guard, which
-- judges the values.
CREATE OR REPLACE TRIGGER tasks_keep_dead
BEFORE UPDATE ON orchestrator.tasks_dead
FOR EACH ROW
WHEN (
    OLD.status = NEW.status
    AND (
        OLD.type IS DISTINCT FROM NEW.type
        OR OLD.payload IS DISTINCT FROM NEW.payload
        -- generated: changed options
        OR OLD.queue IS DISTINCT FROM NEW.queue
        OR OLD.priority IS DISTINCT FROM NEW.priority
        OR OLD.run_at IS DISTINCT FROM NEW.run_at
        OR OLD.idempotency_key IS DISTINCT FROM NEW.idempotency_key
        OR OLD.max_attempts IS DISTINCT FROM NEW.max_attempts
        OR OLD.timeout IS DISTINCT FROM NEW.timeout
        OR OLD.tags IS DISTINCT FROM NEW.tags
        OR OLD.metadata IS DISTINCT FROM NEW.metadata
        OR OLD.trace_context IS DISTINCT FROM NEW.trace_context
        -- end
    )
)
EXECUTE FUNCTION orchestrator.refuse_finished_update();

-- On this leaf alone: a longer condition on the root would cost each claim. By its name it comes after tasks_guard, which
-- judges the values.
CREATE OR REPLACE TRIGGER tasks_keep_done
BEFORE UPDATE ON orchestrator.tasks_done
FOR EACH ROW
WHEN (
    OLD.status = NEW.status
    AND (
        OLD.type IS DISTINCT FROM NEW.type
        OR OLD.payload IS DISTINCT FROM NEW.payload
        -- generated: changed options
        OR OLD.queue IS DISTINCT FROM NEW.queue
        OR OLD.priority IS DISTINCT FROM NEW.priority
        OR OLD.run_at IS DISTINCT FROM NEW.run_at
        OR OLD.idempotency_key IS DISTINCT FROM NEW.idempotency_key
        OR OLD.max_attempts IS DISTINCT FROM NEW.max_attempts
        OR OLD.timeout IS DISTINCT FROM NEW.timeout
        OR OLD.tags IS DISTINCT FROM NEW.tags
        OR OLD.metadata IS DISTINCT FROM NEW.metadata
        OR OLD.trace_context IS DISTINCT FROM NEW.trace_context
        -- end
    )
)
EXECUTE FUNCTION orchestrator.refuse_finished_update();

-- Only hands name the root; a worker's DELETE names tasks_live, and its task keeps its key.
CREATE OR REPLACE TRIGGER tasks_record_delete
AFTER DELETE ON orchestrator.tasks
REFERENCING OLD TABLE AS old_tasks
FOR EACH STATEMENT
EXECUTE FUNCTION orchestrator.record_manual_delete();

-- Only hands name the root, so only their statements are recorded.
CREATE OR REPLACE TRIGGER tasks_record_update
AFTER UPDATE ON orchestrator.tasks
REFERENCING OLD TABLE AS old_tasks NEW TABLE AS new_tasks
FOR EACH STATEMENT
EXECUTE FUNCTION orchestrator.record_manual_update();

-- A declaration that changes nothing writes nothing, and comes here never.
CREATE OR REPLACE TRIGGER types_guard
BEFORE INSERT OR UPDATE ON orchestrator.types
FOR EACH ROW
EXECUTE FUNCTION orchestrator.guard_type();

-- A restore of a whole dump makes the triggers after the data, so its rows keep the place they come from.
CREATE OR REPLACE TRIGGER workers_set_workplace
BEFORE INSERT ON orchestrator.workers
FOR EACH ROW
EXECUTE FUNCTION orchestrator.set_workplace();
