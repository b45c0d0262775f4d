-- Pause, resume or drain a queue. In: queue, state, reason. Out: nothing. Errors as orchestrator.set_queue_state() says them.
SELECT orchestrator.set_queue_state(%(queue)s, %(state)s, %(reason)s)
