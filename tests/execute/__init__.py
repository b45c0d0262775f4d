"""The attempt's own state, without a database."""
