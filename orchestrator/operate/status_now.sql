-- The database's time, from which all ages on one screen are computed.
SELECT orchestrator.clock()
