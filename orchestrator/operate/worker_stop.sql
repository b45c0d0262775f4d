-- Let a worker end now: what it holds goes to others. In: id, reason. Out: how many tasks were given back.
SELECT orchestrator.stop_worker(%(id)s, %(reason)s)
