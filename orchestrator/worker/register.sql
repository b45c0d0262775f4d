-- A worker begins: its row, under an id never used before.
INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity)
VALUES (%(id)s, %(host)s, %(pid)s, %(version)s, %(queues)s::text[], %(capacity)s)
