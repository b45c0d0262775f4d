"""Sleep while there is nothing to do, and wake when a producer rings.

A NOTIFY inside a producer's transaction makes all commits wait for one another. So producers ring only sleeping
workers: a worker that found no task marks for how long it sleeps (`idle`), and the insert trigger looks for that mark.
The mark expires by itself, so that producers do not ring a killed worker for ever. A producer may look before the
mark is set and commit after it. So a worker looks again after 2, 10, 50 and 250 ms before it sleeps, and a slow poll
covers everything else. Notifications are hints: any login can forge one, and none carries data.
"""

from orchestrator.notify.idle import idle
from orchestrator.notify.listen import Calls, Listener
from orchestrator.notify.ring import ring

__all__ = ["Calls", "Listener", "idle", "ring"]
