-- Cancel one task. In: id, reason. The errors are those of orchestrator.cancel().
SELECT orchestrator.cancel(%(id)s, %(reason)s)
