"""The Python API: declaring and enqueueing tasks, and the settings."""
