"""The helpers for users' tests, tried as a user would have them."""
