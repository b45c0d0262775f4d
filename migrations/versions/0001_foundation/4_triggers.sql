-- `make render` writes this file: the triggers.

-- triggers/queues_guard.sql
-- Writes are rare: workers at their start, and operators.
CREATE OR REPLACE TRIGGER queues_guard
BEFORE INSERT OR UPDATE ON orchestrator.queues
FOR EACH ROW
EXECUTE FUNCTION orchestrator.guard_queue();

-- triggers/tasks_fill.sql
-- WHEN is false for complete rows (our own bulk path): a row trigger that fires costs COPY more than half its speed.
-- It is also false for rows that move here from another leaf.
CREATE OR REPLACE TRIGGER tasks_fill
BEFORE INSERT ON orchestrator.tasks
FOR EACH ROW
WHEN (NEW.aging_us IS NULL)
EXECUTE FUNCTION orchestrator.fill_new_task();

-- triggers/tasks_guard.sql
-- Only a worker sets or clears the lease. Three of a worker's writes leave the lease alone; WHEN lets them pass. The
-- start of an attempt sets started_at, which an operator may not set. The sweep changes only the status, and only of
-- due tasks. An unblocked task keeps its place in the order, because it has waited; an operator's statement that
-- unblocks a task does the same.
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

-- triggers/tasks_record_delete.sql
-- Only manual statements name the root. A worker's DELETE names tasks_live, and its task keeps its key.
CREATE OR REPLACE TRIGGER tasks_record_delete
AFTER DELETE ON orchestrator.tasks
REFERENCING OLD TABLE AS old_tasks
FOR EACH STATEMENT
EXECUTE FUNCTION orchestrator.record_manual_delete();

-- triggers/tasks_record_update.sql
-- Only manual statements name the root, so only they are recorded.
CREATE OR REPLACE TRIGGER tasks_record_update
AFTER UPDATE ON orchestrator.tasks
REFERENCING OLD TABLE AS old_tasks NEW TABLE AS new_tasks
FOR EACH STATEMENT
EXECUTE FUNCTION orchestrator.record_manual_update();

-- triggers/tasks_refuse_dead_update.sql
-- On this leaf alone: a longer condition on the root would cost each claim. Triggers fire by name, so it fires after
-- tasks_guard, which checks the values.
CREATE OR REPLACE TRIGGER tasks_refuse_dead_update
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

-- triggers/tasks_refuse_done_update.sql
-- On this leaf alone: a longer condition on the root would cost each claim. Triggers fire by name, so it fires after
-- tasks_guard, which checks the values.
CREATE OR REPLACE TRIGGER tasks_refuse_done_update
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

-- triggers/tasks_refuse_id.sql
-- UPDATE OF: a statement that does not name `id`, as no worker's does, does not evaluate the condition.
CREATE OR REPLACE TRIGGER tasks_refuse_id
BEFORE UPDATE OF id ON orchestrator.tasks
FOR EACH ROW
WHEN (OLD.id IS DISTINCT FROM NEW.id)
EXECUTE FUNCTION orchestrator.refuse_new_id();

-- triggers/types_guard.sql
-- A declaration that changes nothing writes nothing, so it does not fire this trigger.
CREATE OR REPLACE TRIGGER types_guard
BEFORE INSERT OR UPDATE ON orchestrator.types
FOR EACH ROW
EXECUTE FUNCTION orchestrator.guard_type();

-- triggers/workers_set_workplace.sql
-- A restore of a whole dump creates the triggers after the data, so its rows keep the oid of the original table.
CREATE OR REPLACE TRIGGER workers_set_workplace
BEFORE INSERT ON orchestrator.workers
FOR EACH ROW
EXECUTE FUNCTION orchestrator.set_workplace();
