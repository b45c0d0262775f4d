"""See it work: a server from nothing, workers, a few thousand tasks of every kind, and what came of them.

    run    take the folder → start its server → fresh tables → workers → load → probes → figures → workers stop
           Ctrl-C, SIGTERM, SIGHUP: from wherever it is to the last step; again: at once

A run owns its folder, by a lock that the kernel lets go of with the process, and empties what a run before left
there; a folder with a cluster that no demo made is refused, since it may hold a user's tasks. The workers are
processes of `orchestrator worker`, tied to this one by a pipe: however it ends, they end. The server ends with its
last user, as every embedded server does. What is shown at the end is read from the tables, not counted here.
"""

from orchestrator.demo.run import Run, run

__all__ = ["Run", "run"]
