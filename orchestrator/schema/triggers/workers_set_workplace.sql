-- A restore of a whole dump makes the triggers after the data, so its rows keep the place they come from.
CREATE OR REPLACE TRIGGER workers_set_workplace
BEFORE INSERT ON orchestrator.workers
FOR EACH ROW
EXECUTE FUNCTION orchestrator.set_workplace();
