-- The database's time, by which all ages on one screen are told.
SELECT orchestrator.clock()
