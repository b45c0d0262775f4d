-- What a worker runs on the connection on which it listens.

-- name: queues
-- Receive what orchestrator.ring() sends: the payload is a queue.
LISTEN orchestrator

-- name: workers
-- Receive what concerns workers: the payload is a worker's id (look at your leases), or `lead` (it is vacant).
LISTEN orchestrator_workers

-- name: beacon
-- Hold the beacon of a worker for as long as this session lasts. Its key: the worker's id, and a random number that
-- only readers of the worker's row know; any login may take an advisory lock, but cannot guess this one.
-- One at a time: this first releases an older beacon of this session, under another number.
SELECT pg_advisory_unlock_all(), pg_advisory_lock(hashtextextended(%(worker_id)s::uuid::text, %(beacon)s))
