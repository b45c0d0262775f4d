"""What a feature is: a folder that adds to a worker, and a line in `worker/features.py`. Without both, the rest works.

A task that uses no feature pays for none. The rest of the package names no feature; a feature plugs in here:

    declare      at the start of a worker: write what the application declares, beside its types
    duties       what the leader does (lead/duty_group.py). Each second is enough: it is the companion's safety net
    source       claims the tasks that the plain claim leaves out: those with a `lane` (source.py)
    companion    acts right after an end of a lease that returned permits or changed gates (companion.py)

The SQL side is in the core. `tasks.lane` keeps a task from the plain claim. `tasks.holds` lists what a lease holds, and
`tasks.gates` what counts the task's end. (`holds` must not be NULL where `gates`, `tenant` or `limits` are set: the
plain finish looks at `holds` alone.) Each of the seven ways in which a lease ends writes one row for each key into
`permits_returned` and `gate_changes`, in the statement that ends the lease, whichever process runs it.

What each failure leads to:

    a part raises        an event names the feature (`DutyFailed`). The worker and plain tasks go on
    a worker is killed   its leases end by recovery, which writes the same rows; the feature's duty finds them
    an end is not told   the companion hears only of ends that its own worker wrote, and that were answered. Its duty
                         finds the others: another worker's, the leader's, a manual change's
    a claim's answer     is lost: the claimed tasks are ghosts, as those of a plain claim, and go back
"""

from orchestrator.feature.companion import Companion, Follower
from orchestrator.feature.feature import Feature, Host, Parts
from orchestrator.feature.joined import Joined
from orchestrator.feature.source import OpenSource, Source

__all__ = ["Companion", "Feature", "Follower", "Host", "Joined", "OpenSource", "Parts", "Source"]
