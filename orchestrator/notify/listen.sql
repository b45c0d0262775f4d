-- Hear what orchestrator.ring() sends.
LISTEN orchestrator
