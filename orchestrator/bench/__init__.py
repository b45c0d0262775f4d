"""Measure the speed and the cost of Orchestrator on a server, as ratios to floors that are measured in the same run.

    run    scratch database → measures, one after the other → table or JSON → scratch database dropped
           Ctrl-C, SIGTERM, SIGHUP: from any step to the last one

A number alone shows how fast a machine is. So each line has a floor beside it (`floors.py`): the least work that any
program must do on this server. Rounds of ours and of the floor take turns, and the bench compares their medians.
Workers are processes of `orchestrator worker` with the default settings, except for the concurrency.

The run makes a database of its own and touches no other. A measure is a function from an `Environment` to results. All
measures are in `measures/`.
"""

from orchestrator.bench.measures import MEASURES
from orchestrator.bench.run import Run, run
from orchestrator.bench.sizes import SIZES, Sizes

__all__ = ["MEASURES", "SIZES", "Run", "Sizes", "run"]
