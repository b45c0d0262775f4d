-- Cancel one task. In: id, reason. Errors as orchestrator.cancel() says them.
SELECT orchestrator.cancel(%(id)s, %(reason)s)
