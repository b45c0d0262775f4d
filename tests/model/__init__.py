"""The coordination of workers as a model, and a walk through all of its states. The essay is in protocol.py."""
