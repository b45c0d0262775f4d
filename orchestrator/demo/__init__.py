"""The demo: a new server, workers, a few thousand tasks of every kind, and their results.

    run    lock the folder → start its server → new tables → workers → load → probes → figures → workers stop
           Ctrl-C, SIGTERM, SIGHUP: from any step to the last one; a second signal: exit at once

A run holds a lock on its folder. The kernel releases the lock when the process ends. The run drops the tables of the
previous run. It refuses a folder with a cluster that no demo made, because that may hold a user's tasks. The workers
are processes of `orchestrator worker` with a pipe to this process, so they end with it. The server ends with its last
user, like every embedded server. The demo reads its figures from the tables and counts nothing itself.
"""

from orchestrator.demo.run import Run, run

__all__ = ["Run", "run"]
