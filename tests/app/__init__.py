"""The front door for Python code: declaring and enqueueing tasks, and the settings."""
