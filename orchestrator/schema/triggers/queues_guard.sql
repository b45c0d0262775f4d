-- Few write here: workers at their start, and people.
CREATE OR REPLACE TRIGGER queues_guard
BEFORE INSERT OR UPDATE ON orchestrator.queues
FOR EACH ROW
EXECUTE FUNCTION orchestrator.guard_queue();
