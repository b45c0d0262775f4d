-- Pause, resume or drain a queue. In: queue, state, reason. Out: nothing. The errors are those of
-- orchestrator.set_queue_state().
SELECT orchestrator.set_queue_state(%(queue)s, %(state)s, %(reason)s)
