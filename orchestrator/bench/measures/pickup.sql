-- When the handlers started, which is their result. In: ids. Out: the finished ones. Locks: none.
SELECT t.id, t.result::bigint FROM orchestrator.tasks_done AS t WHERE t.id = ANY (%(ids)s) AND t.status = 'completed'
