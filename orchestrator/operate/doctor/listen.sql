-- Hear what ring.sql sends.
LISTEN orchestrator_doctor
