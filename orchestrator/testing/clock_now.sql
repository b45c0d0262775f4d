-- What every statement takes for the present. Out: one moment.
SELECT orchestrator.clock()
