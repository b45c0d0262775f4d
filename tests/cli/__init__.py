"""The command `orchestrator`, run as a person runs it."""
