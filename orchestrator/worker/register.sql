-- A worker begins: its row, under an id never used before. Once more, when the first answer was lost: that is no fault.
INSERT INTO orchestrator.workers (id, host, pid, version, queues, types, capacity)
VALUES (%(id)s, %(host)s, %(pid)s, %(version)s, %(queues)s::text[], %(types)s::text[], %(capacity)s)
ON CONFLICT (id) DO NOTHING
