-- A restore of a whole dump creates the triggers after the data, so its rows keep the oid of the original table.
CREATE OR REPLACE TRIGGER workers_set_workplace
BEFORE INSERT ON orchestrator.workers
FOR EACH ROW
EXECUTE FUNCTION orchestrator.set_workplace();
