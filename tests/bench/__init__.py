"""The bench: every measure runs and returns plausible figures, and nothing is left behind.

No test checks how fast anything is.
"""
