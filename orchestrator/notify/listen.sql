-- Receive what orchestrator.ring() sends: the payload is a queue.
LISTEN orchestrator
