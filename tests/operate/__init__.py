"""What a person may do and ask: the tests of orchestrator/operate."""
