-- End a worker now: its tasks go to others. In: id, reason. Out: how many tasks were given back.
SELECT orchestrator.stop_worker(%(id)s, %(reason)s)
