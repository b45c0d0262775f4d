-- Let a worker finish its running tasks, and end. In: id, reason. Out: false if it is ending already.
SELECT orchestrator.drain_worker(%(id)s, %(reason)s)
