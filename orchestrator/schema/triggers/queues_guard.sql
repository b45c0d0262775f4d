-- Writes are rare: workers at their start, and operators.
CREATE OR REPLACE TRIGGER queues_guard
BEFORE INSERT OR UPDATE ON orchestrator.queues
FOR EACH ROW
EXECUTE FUNCTION orchestrator.guard_queue();
