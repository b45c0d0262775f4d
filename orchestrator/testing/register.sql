-- Register run_tasks() as a worker while it runs: only living workers may claim. In: id, host, pid, version.
-- Its row names no queue, so that no other worker counts on it.
INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity)
VALUES (%(id)s, %(host)s, %(pid)s, %(version)s, '{}', 1)
