-- Let a worker finish what it runs, and end. In: id, reason. Out: false where it is ending already.
SELECT orchestrator.drain_worker(%(id)s, %(reason)s)
