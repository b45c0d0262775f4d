"""How long a test waits for an event."""

# Longer than anything takes on a machine that is a third as fast and busy: to wait this long is to fail.
PATIENCE_SECONDS = 90.0
