"""The command `orchestrator`, run as its users run it."""
