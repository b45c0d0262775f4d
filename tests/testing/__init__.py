"""The helpers for users' tests, called as a user calls them."""
