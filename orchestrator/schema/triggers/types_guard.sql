-- A declaration that changes nothing writes nothing, so it does not fire this trigger.
CREATE OR REPLACE TRIGGER types_guard
BEFORE INSERT OR UPDATE ON orchestrator.types
FOR EACH ROW
EXECUTE FUNCTION orchestrator.guard_type();
