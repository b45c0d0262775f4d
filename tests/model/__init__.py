"""A model of the coordination of workers, and a search through all of its states. protocol.py describes it."""
