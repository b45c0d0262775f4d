-- Receive what concerns workers: the payload is a worker's id (look at your leases), or `lead` (it is vacant).
LISTEN orchestrator_workers
