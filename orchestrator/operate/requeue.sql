-- Run one task again. In: id, reason. Out: one row. Errors as orchestrator.requeue() says them.
SELECT orchestrator.requeue(%(id)s, %(reason)s)
