-- Run one task again. In: id, reason. Out: one row. The errors are those of orchestrator.requeue().
SELECT orchestrator.requeue(%(id)s, %(reason)s)
