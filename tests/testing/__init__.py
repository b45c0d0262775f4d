"""The helpers for users' tests, used as a user would."""
