"""Sleep when there is nothing to do, and be woken when there is.

A NOTIFY inside a producer's transaction makes all commits wait for one another, so producers ring only for
sleepers: a worker that has found nothing says for how long it is asleep (`idle`), and the insert trigger looks.
The mark expires by itself, so that a killed worker is not rung for ever. A producer may have looked before the
mark and committed after it; so a worker looks again after 2, 10, 50 and 250 ms before it sleeps, and a slow
poll stands behind everything. Notifications are hints: any login can forge one, and none carries data.
"""

from orchestrator.notify.idle import idle
from orchestrator.notify.listen import Calls, Listener
from orchestrator.notify.ring import ring

__all__ = ["Calls", "Listener", "idle", "ring"]
