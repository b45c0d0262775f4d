"""The coordination of workers as a model, and a search through all of its states. The description is in protocol.py."""
