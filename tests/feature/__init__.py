"""The seam of features (orchestrator/feature): a feature for tests only, and what a worker does with it.

`lane_limits` is the smallest feature that needs every part: at most n tasks of one lane run at a time, in all workers
together. tests/chaos has it, too.
"""
