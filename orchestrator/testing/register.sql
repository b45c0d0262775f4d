-- Who drains is a worker while it does: claims are given to living workers alone. In: id, host, pid, version.
-- It serves no queue by its row, so that nobody waits for it or counts on it.
INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity)
VALUES (%(id)s, %(host)s, %(pid)s, %(version)s, '{}', 1)
