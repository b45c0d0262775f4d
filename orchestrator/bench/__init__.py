"""Measure the speed and the cost of Orchestrator on a server, as ratios to floors that are measured in the same run.

    run    scratch database → measures, one after the other → table or JSON → scratch database dropped
           Ctrl-C, SIGTERM, SIGHUP: from wherever it is to the last step

A number alone says how fast a machine is. So each line has a floor beside it: the least that any program would have to
do on this server, `floors.py`, in rounds that take turns with ours; what is compared are medians. Workers are processes
of `orchestrator worker`, with the settings that everybody gets, concurrency apart.

The run makes a database of its own and touches no other. A measure is a function from the `Environment` it stands on to
results; what there is stands in `measures/`.
"""

from orchestrator.bench.measures import MEASURES
from orchestrator.bench.run import Run, run
from orchestrator.bench.sizes import SIZES, Sizes

__all__ = ["MEASURES", "SIZES", "Run", "Sizes", "run"]
