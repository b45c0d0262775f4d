"""The bench: that every measure runs and says something sane, and that nothing is left.

How fast anything is, no test says.
"""
