-- Listen for the notification that ring.sql sends.
LISTEN orchestrator_doctor
